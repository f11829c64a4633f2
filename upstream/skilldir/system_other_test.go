//go:build !unix

package skilldir

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }

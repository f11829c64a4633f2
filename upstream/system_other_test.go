//go:build !unix

package upstream

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }

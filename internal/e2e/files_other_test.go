//go:build !unix

package e2e

import "errors"

func limitFiles(uint64) error { return errors.ErrUnsupported }

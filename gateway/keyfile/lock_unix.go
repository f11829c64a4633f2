//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package keyfile

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process has locked the directory. It holds until it is closed.
func lock(dir *os.File) error {
	for {
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

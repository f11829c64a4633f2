//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package configtext

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner of another one, as far as this process may: a gateway has to be
// able to read what root has written for it.
func keepOwner(fresh *os.File, was os.FileInfo) {
	if s, ok := was.Sys().(*syscall.Stat_t); ok {
		_ = fresh.Chown(int(s.Uid), int(s.Gid))
	}
}

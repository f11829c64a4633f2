package expiring_test

import (
	"syscall"
	"testing"
)

// smallDisk puts a file system of one MiB in a directory.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a full disk: %v", err) // it needs the right to mount one, as in CI, where the tests run as root
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

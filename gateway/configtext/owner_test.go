//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package configtext

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplaceKeepsOwner: what root replaces still belongs to the user of the gateway, who alone may
// read it. Others than root replace what is theirs.
func TestReplaceKeepsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	owner := os.Geteuid()
	if os.Chown(path, 1, -1) == nil { // not even every root may
		owner = 1
	}
	if err := Replace(path, []byte("new"), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; int(got) != owner || info.Mode().Perm() != 0o600 {
		t.Errorf("it belongs to %d, mode %v", got, info.Mode())
	}
}

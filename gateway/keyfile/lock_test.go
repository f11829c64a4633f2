//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package keyfile

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
)

// TestAppendTogether: of keys that are made at the same time, none is lost, not even while there is
// no file yet.
func TestAppendTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	const many = 20
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			key, id := apikey.New()
			if err := Append(path, apikey.Entry{ID: id, Hash: apikey.Hash(key), User: "ci-bot"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := Entries(path); err != nil || len(got) != many {
		t.Errorf("%d keys, %v", len(got), err)
	}
}

package expiring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func openFile(t *testing.T, path string, key *seal.Key) *expiring.File {
	t.Helper()
	f, err := expiring.OpenFile(path, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func shareFile(t *testing.T, path string) *expiring.File {
	t.Helper()
	f, err := expiring.ShareFile(path, newKey(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestShareFile: what one has kept the others find, and of all who add a value at a time, one does. Who wants the
// file alone has to wait for no more than a step.
func TestShareFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shared.db")
	var stores []*expiring.Store
	for range 4 {
		stores = append(stores, expiring.New(expiring.Base{File: shareFile(t, path)}, newKey(t, secret), "s", 100))
	}
	var wg sync.WaitGroup
	var added atomic.Int32
	for i, s := range stores {
		wg.Go(func() {
			for n := range 10 {
				if first, err := s.Add(t.Context(), fmt.Sprint(n), []byte{byte(i)}, time.Hour); err != nil {
					t.Error(err)
				} else if first {
					added.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if added.Load() != 10 {
		t.Errorf("%d values were added, want 10", added.Load())
	}
	if ok, err := stores[0].Swap(t.Context(), "3", []byte("x"), []byte("y"), time.Hour); ok || err != nil {
		t.Error("another value was swapped", err)
	}
	if err := stores[0].Put(t.Context(), "3", []byte("new"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, err := stores[1].Get(t.Context(), "3"); err != nil || string(got) != "new" {
		t.Errorf("another one has %q %v", got, err)
	}
	openFile(t, path, newKey(t, secret))
}

// TestFileLasts: what is kept is there in the next process, until it ends. What has ended leaves the file with
// the writes of others, and with the next start.
func TestFileLasts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, path, key := t.Context(), filepath.Join(dir, "state", "state.db"), newKey(t, secret)
		f := openFile(t, path, key)
		s := expiring.New(expiring.Base{File: f}, key, "f", 100)
		for i := range 40 {
			if err := s.PutOf(ctx, "alice", fmt.Sprint("short ", i), []byte("x"), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		long, err := s.Add(ctx, "long", []byte("long"), time.Hour)
		if err != nil || !long {
			t.Fatal(long, err)
		}
		for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v %v", name, info.Mode(), err)
			}
		}
		if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("long")) {
			t.Errorf("names or values can be read: %v", err)
		}
		f.Close()
		f = openFile(t, path, key)
		s = expiring.New(expiring.Base{File: f}, key, "f", 100)
		if got, err := s.Get(ctx, "short 39"); err != nil || string(got) != "x" {
			t.Errorf("after a restart: %q %v", got, err)
		}
		before := expiring.Sizes(f)
		time.Sleep(time.Minute)
		if _, err := s.Get(ctx, "short 39"); !errors.Is(err, expiring.ErrNone) {
			t.Errorf("after its life: %v", err)
		}
		if err := s.Put(ctx, "another", nil, time.Minute); err != nil || expiring.Sizes(f) >= before {
			t.Errorf("what has ended stays: %d of %d %v", expiring.Sizes(f), before, err)
		}
		time.Sleep(time.Minute)
		f.Close()
		f = openFile(t, path, key)
		if n := expiring.Sizes(f); n != 1 {
			t.Errorf("%d values after the next start, want the one that has not ended", n)
		}
		if got, err := expiring.New(expiring.Base{File: f}, key, "f", 100).Get(ctx, "long"); err != nil ||
			string(got) != "long" {
			t.Errorf("%q %v", got, err)
		}
		f.Close()
	})
}

// TestFileRefused: a file that is not whole, of another key, of a newer version or in use is refused with its
// path, and stays as it is.
func TestFileRefused(t *testing.T) {
	t.Parallel()
	ctx, key := t.Context(), newKey(t, secret)
	whole := filepath.Join(t.TempDir(), "state.db")
	f := openFile(t, whole, key)
	s := expiring.New(expiring.Base{File: f}, key, "f", 100_000)
	for i := range 200 {
		if err := s.PutOf(ctx, "alice", fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 300), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := expiring.OpenFile(whole, key); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("twice: %v", err)
	}
	f.Close()
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, text []byte, mode os.FileMode, key *seal.Key, want string) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "state.db")
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		opened, err := expiring.OpenFile(path, key)
		if err == nil {
			opened.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s: the file was changed: %v", what, err)
		}
	}
	const damaged = "is damaged"
	refused("empty", nil, 0o600, key, damaged)
	refused("half", text[:len(text)/2], 0o600, key, damaged)
	refused("zeros", make([]byte, len(text)), 0o600, key, damaged)
	refused("a text", bytes.Repeat([]byte("state\n"), 10_000), 0o600, key, damaged)
	refused("readable by others", text, 0o644, key, "chmod 600")
	refused("another key", text, 0o600, newKey(t, other), "sessions.previous_keys")
	// Where one of the first two pages is damaged, bbolt goes back by one transaction: its change is lost.
	first := 2 * os.Getpagesize()
	for i := range 40 { // a bit that has changed, or an end that is missing
		changed, at := bytes.Clone(text), first+rand.IntN(len(text)-first)
		if changed[at] ^= 1 << rand.IntN(8); i%2 == 0 {
			changed = bytes.Clone(text[:at])
		}
		path := filepath.Join(t.TempDir(), "state.db")
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		opened, err := expiring.OpenFile(path, key)
		if err != nil {
			continue
		}
		s := expiring.New(expiring.Base{File: opened}, key, "f", 100_000)
		for i := range 200 { // nothing of it was in use
			if got, err := s.Get(ctx, fmt.Sprint(i)); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, 300)) {
				t.Errorf("%d bytes, changed at %d: value %d is lost: %v", len(changed), at, i, err)
				break
			}
		}
		opened.Close()
	}
}

// TestFileKeyChanges: a file is opened with a new key as long as the old one is accepted, and then without it.
func TestFileKeyChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	for i, key := range []*seal.Key{newKey(t, secret), newKey(t, other, []byte(secret)), newKey(t, other)} {
		f, err := expiring.OpenFile(path, key)
		if err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
		f.Close()
	}
}

// TestFileFull: a write that the disk does not take is an error, and has not happened.
func TestFileFull(t *testing.T) {
	t.Parallel()
	fill := func(t *testing.T, f *expiring.File, want string) {
		t.Helper()
		ctx, s := context.Background(), expiring.New(expiring.Base{File: f}, nil, "f", 100)
		if err := s.Put(ctx, "first", []byte("first"), time.Hour); err != nil {
			t.Fatal(err)
		}
		value, kept := bytes.Repeat([]byte("x"), 10_000), 0
		var err error
		for ; err == nil && kept < 1000; kept++ {
			err = s.Put(ctx, fmt.Sprint(kept), value, time.Hour)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.Path()) {
			t.Fatalf("after %d values: %v", kept, err)
		}
		if _, err := s.Get(ctx, fmt.Sprint(kept-1)); !errors.Is(err, expiring.ErrNone) {
			t.Errorf("what was refused is there: %v", err)
		}
		if got, err := s.Take(ctx, "0"); err != nil || !bytes.Equal(got, value) {
			t.Errorf("what was kept cannot be used: %v", err)
		}
		if ok, err := s.Swap(ctx, "first", []byte("first"), []byte("again"), time.Hour); err != nil || !ok {
			t.Errorf("what was kept cannot be changed: %v", err)
		}
	}
	t.Run("bound", func(t *testing.T) {
		f := openFile(t, filepath.Join(t.TempDir(), "state.db"), newKey(t, secret))
		expiring.Bound(f, 1<<20)
		fill(t, f, "may have 1048576")
	})
	t.Run("disk", func(t *testing.T) {
		dir := t.TempDir()
		smallDisk(t, dir)
		path := filepath.Join(dir, "state.db")
		f := openFile(t, path, newKey(t, secret))
		fill(t, f, "no space left")
		f.Close()
		f = openFile(t, path, newKey(t, secret))
		if got, err := expiring.New(expiring.Base{File: f}, nil, "f", 100).Get(context.Background(),
			"first"); err != nil || string(got) != "again" {
			t.Errorf("after a restart: %q %v", got, err)
		}
		f.Close() // before the disk goes
	})
}

package expiring_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

func newKey(t *testing.T, secret string, accepted ...[]byte) *seal.Key {
	t.Helper()
	key, err := seal.NewKey([]byte(secret), "kept", accepted...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func open(t *testing.T, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(redisdb.Config{URL: mcp.Secret(url)}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const (
	secret = "0123456789abcdef0123456789abcdef"
	other  = "fedcba9876543210fedcba9876543210"
)

// TestStore: what a store promises, in memory, in a file and in Redis, sealed and as it is.
func TestStore(t *testing.T) {
	t.Parallel()
	file := expiring.Base{File: openFile(t, filepath.Join(t.TempDir(), "new", "state.db"), newKey(t, secret))}
	shared := expiring.Base{File: shareFile(t, filepath.Join(t.TempDir(), "new", "shared.db"))}
	db := open(t, redistest.Start(t).URL())
	for name, s := range map[string]*expiring.Store{
		"memory":        expiring.New(expiring.Base{}, nil, "m", 100),
		"sealed memory": expiring.New(expiring.Base{}, newKey(t, secret), "sm", 100),
		"file":          expiring.New(file, nil, "f", 1),
		"sealed file":   expiring.New(file, newKey(t, secret), "sf", 1),
		"shared file":   expiring.New(shared.Brief(), newKey(t, secret), "sh", 1),
		"redis":         expiring.New(expiring.Base{Redis: db}, nil, "r", 1),
		"sealed redis":  expiring.New(expiring.Base{Redis: db}, newKey(t, secret), "sr", 1),
	} {
		t.Run(name, func(t *testing.T) { check(t, s) })
	}
}

func check(t *testing.T, s *expiring.Store) {
	ctx := t.Context()
	is := func(what, name, want string) {
		t.Helper()
		got, err := s.Get(ctx, name)
		if want == "" && !errors.Is(err, expiring.ErrNone) || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%s: %q %v, want %q", what, got, err, want)
		}
	}
	yes := func(what string, want bool) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%s: %v %v, want %v", what, got, err, want)
			}
		}
	}
	no := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	is("nothing", "a", "")
	no("put", s.Put(ctx, "a", []byte("one"), time.Hour))
	is("put", "a", "one")
	no("put again", s.Put(ctx, "a", []byte("two"), time.Hour))
	is("put again", "a", "two")
	yes("added to one that is there", false)(s.Add(ctx, "a", []byte("three"), time.Hour))
	is("not added", "a", "two")
	yes("added", true)(s.Add(ctx, "b", []byte("b"), time.Hour))
	yes("swapped for another", false)(s.Swap(ctx, "a", []byte("one"), []byte("x"), time.Hour))
	yes("swapped", true)(s.Swap(ctx, "a", []byte("two"), []byte("three"), time.Hour))
	yes("swapped for nothing", false)(s.Swap(ctx, "c", nil, []byte("x"), time.Hour))
	is("swapped", "a", "three")
	if got, err := s.Take(ctx, "a"); err != nil || string(got) != "three" {
		t.Errorf("taken: %q %v", got, err)
	}
	if _, err := s.Take(ctx, "a"); !errors.Is(err, expiring.ErrNone) {
		t.Errorf("taken twice: %v", err)
	}
	no("drop", s.Drop(ctx, "b"))
	no("drop nothing", s.Drop(ctx, "b"))
	is("dropped", "b", "")
	if err := s.Put(ctx, "large", make([]byte, expiring.MaxValue+1), time.Hour); err == nil {
		t.Error("a value has no bound")
	}
	// What is returned belongs to the caller.
	no("put", s.Put(ctx, "own", []byte("own"), time.Hour))
	got, _ := s.Get(ctx, "own")
	copy(got, "xxx")
	is("a copy", "own", "own")

	// Of many who want the same, one gets it.
	no("put", s.Put(ctx, "code", []byte("0"), time.Hour))
	var added, swapped, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if ok, _ := s.Add(ctx, "race", []byte("x"), time.Hour); ok {
				added.Add(1)
			}
			if ok, _ := s.Swap(ctx, "code", []byte("0"), fmt.Append(nil, "1", i), time.Hour); ok {
				swapped.Add(1)
			}
		})
	}
	all.Wait()
	for range 20 {
		all.Go(func() {
			if _, err := s.Take(ctx, "code"); err == nil {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	if added.Load() != 1 || swapped.Load() != 1 || taken.Load() != 1 {
		t.Errorf("%d added, %d swapped, %d taken, want one each", added.Load(), swapped.Load(), taken.Load())
	}
}

// TestLife: a value ends, in memory as in Redis.
func TestLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := expiring.New(expiring.Base{}, nil, "m", 2)
		s.Put(t.Context(), "a", []byte("a"), time.Minute)
		time.Sleep(time.Minute - 1)
		if _, err := s.Get(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Get(t.Context(), "a"); !errors.Is(err, expiring.ErrNone) {
			t.Errorf("after its life: %v", err)
		}
		if ok, _ := s.Add(t.Context(), "a", []byte("b"), time.Minute); !ok {
			t.Error("a value that has ended is in the way")
		}
		// The third one replaces the one that was used least recently.
		s.Put(t.Context(), "b", []byte("b"), time.Minute)
		s.Get(t.Context(), "a")
		s.Put(t.Context(), "c", []byte("c"), time.Minute)
		if _, err := s.Get(t.Context(), "b"); !errors.Is(err, expiring.ErrNone) {
			t.Errorf("beyond the bound: %v", err)
		}
		if _, err := s.Get(t.Context(), "a"); err != nil {
			t.Errorf("used lately: %v", err)
		}
	})
	server := redistest.Start(t)
	s := expiring.New(expiring.Base{Redis: open(t, server.URL())}, nil, "r", 1)
	client := server.Client()
	defer client.Close()
	if err := s.Put(t.Context(), "a", []byte("a"), time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, key := range client.Keys(t.Context(), "*").Val() {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("%s ends in %v", key, ttl)
		}
	}
}

// TestForged: whoever writes to Redis can neither read a value, nor make, change or move one; a
// value outlives the rotation of the key.
func TestForged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	db := open(t, server.URL())
	s := expiring.New(expiring.Base{Redis: db}, newKey(t, secret), "room", 1)
	rotated := expiring.New(expiring.Base{Redis: db}, newKey(t, other, []byte(secret)), "room", 1)
	stranger := expiring.New(expiring.Base{Redis: db}, newKey(t, other), "room", 1)
	client := server.Client()
	defer client.Close()
	put := func(name string) (key string, value []byte) {
		if err := s.Put(ctx, name, []byte("plain of "+name), time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, key = range client.Keys(context.Background(), "*").Val() {
			if value, _ = client.Get(ctx, key).Bytes(); strings.Contains(key, name) || bytes.Contains(value, []byte("plain")) {
				t.Errorf("%s: %q is readable", key, value)
			}
		}
		return key, value
	}
	first, value := put("alice")
	if _, err := stranger.Get(ctx, "alice"); !errors.Is(err, expiring.ErrNone) {
		t.Errorf("with another key: %v", err)
	}
	if got, err := rotated.Get(ctx, "alice"); err != nil || string(got) != "plain of alice" {
		t.Errorf("after the rotation: %q %v", got, err)
	}
	if ok, err := rotated.Swap(ctx, "alice", []byte("plain of alice"), []byte("new"), time.Hour); err != nil || !ok {
		t.Errorf("swapped after the rotation: %v %v", ok, err)
	}
	client.Del(ctx, first)
	second, _ := put("bob")
	client.Set(ctx, second, value, time.Hour)
	if got, err := s.Get(ctx, "bob"); !errors.Is(err, expiring.ErrNone) {
		t.Errorf("moved: %q %v", got, err)
	}
	client.Set(ctx, second, "forged", time.Hour)
	if got, err := s.Take(ctx, "bob"); !errors.Is(err, expiring.ErrNone) {
		t.Errorf("forged: %q %v", got, err)
	}
}

// TestShare: one owner takes none of the room of others, wherever it is.
func TestShare(t *testing.T) {
	t.Parallel()
	const most = 100 // so that each owner has two
	for where, s := range map[string]*expiring.Store{
		"memory": expiring.New(expiring.Base{}, nil, "m", most),
		"file": expiring.New(expiring.Base{File: openFile(t, filepath.Join(t.TempDir(), "state.db"), newKey(t, secret))},
			newKey(t, secret), "f", most),
		"redis": expiring.New(expiring.Base{Redis: open(t, redistest.Start(t).URL())}, newKey(t, secret), "r", most),
	} {
		ctx := t.Context()
		put := func(owner, name string) {
			t.Helper()
			if err := s.PutOf(ctx, owner, name, []byte(name), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		put("bob", "bob's")
		for i := range most + 1 {
			put("alice", fmt.Sprint("alice's ", i))
		}
		put("alice", fmt.Sprint("alice's ", most-1)) // is the newest now, and no further one
		put("alice", "alice's last")
		for name, want := range map[string]bool{"bob's": true, "alice's 99": true, "alice's last": true, "alice's 98": false,
			"alice's 100": false} {
			if got, err := s.Get(ctx, name); want != (err == nil && string(got) == name) {
				t.Errorf("%s: %s is there: %q %v, want %t", where, name, got, err, want)
			}
		}
	}
}

// TestShareOfAdded: of what one owner adds in memory a share is there, and what has gone takes no share.
func TestShareOfAdded(t *testing.T) {
	ctx, s := t.Context(), expiring.New(expiring.Base{}, nil, "m", 100) // each owner has two
	add := func(owner, name string) bool {
		t.Helper()
		added, err := s.AddOf(ctx, owner, name, []byte{1}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	if !add("bob", "bob's") {
		t.Error("it is not added")
	}
	for i := range 1000 {
		add("alice", fmt.Sprint("alice's ", i))
	}
	if add("bob", "bob's") || add("alice", "alice's 999") || add("alice", "alice's 998") {
		t.Error("it is added twice")
	}
	if err := s.Drop(ctx, "alice's 999"); err != nil {
		t.Fatal(err)
	}
	if !add("alice", "alice's last") || add("alice", "alice's 998") {
		t.Error("what was dropped takes a share")
	}
	if !add("alice", "alice's 1") || !add("alice", "alice's 998") {
		t.Error("the oldest is there beyond the share")
	}
}

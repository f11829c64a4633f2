package vault

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestRedisReader: what stands in Redis says nothing without the vault's key, and what was
// moved there to another user or server opens for nobody.
func TestRedisReader(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	server := redistest.Start(t)
	redis := openRedis(t, server.URL())
	v, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	keep(t, v, alice, "wiki", s.grant("wiki", time.Hour))
	keep(t, v, bob, "crm", s.grant("bob", time.Hour))
	client := server.Client()
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) < 3 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		text, err := client.Get(t.Context(), key).Result()
		for _, clear := range []string{"alice", "access", "refresh", "crm", "login.example.com", clientSecret} {
			if err != nil || strings.Contains(key+text, clear) {
				t.Errorf("%s: shows %q: %q %v", key, clear, text, err)
			}
		}
	}
	store := expiring.New(expiring.Base{Redis: redis}, nil, "accounts", 1)
	stolen, err := store.Get(t.Context(), place{alice, "crm"}.name())
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]place{"another user": {bob, "crm"}, "another server": {alice, "wiki"},
		"another issuer": {Owner{"https://evil.example", "alice"}, "crm"}} {
		if err := store.Put(t.Context(), at.name(), stolen, time.Hour); err != nil {
			t.Fatal(err)
		}
		fresh, _ := s.open(t, localKeys(keyA), redis) // which knows nothing by heart
		if got, _, err := fresh.Token(t.Context(), at.owner, at.server, serverURL); !errors.Is(err, ErrNeedsSignIn) {
			t.Errorf("%s: got %q %v", name, got, err)
		}
		wantState(t, fresh, at.owner, at.server, StateNeedsSignIn)
	}
}

// TestKeyRotation: what an old key has sealed opens as long as the key is there, and is sealed anew
// when it is used.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	before, _ := s.open(t, localKeys(keyA), redis)
	for _, server := range []string{"used", "refreshed", "idle"} {
		life := time.Hour
		if server == "refreshed" {
			life = -time.Second
		}
		keep(t, before, alice, server, s.grant(server, life))
	}
	between, _ := s.open(t, localKeys(keyB, keyA), redis)
	wantToken(t, between, alice, "used", accessToken("used", 0))
	wantToken(t, between, alice, "refreshed", accessToken("refreshed", 1))
	between.mu.Lock()
	between.closed = true
	between.mu.Unlock()
	between.wg.Wait()
	after, _ := s.open(t, localKeys(keyB), redis)
	wantToken(t, after, alice, "used", accessToken("used", 0))
	wantToken(t, after, alice, "refreshed", accessToken("refreshed", 1))
	if _, _, err := after.Token(t.Context(), alice, "idle", serverURL); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %v: its key has gone", err)
	}
	wantToken(t, before, alice, "idle", accessToken("idle", 0))
}

// TestOneDataKey: all values of a user have one data key, no two users have the same one.
func TestOneDataKey(t *testing.T) {
	t.Parallel()
	s, err := newSealer(localKeys(keyA))
	if err != nil {
		t.Fatal(err)
	}
	wrapped := func(at place) string {
		value, err := s.seal(t.Context(), at, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		key, _, _ := bytes.Cut(value, []byte("\n"))
		return string(key)
	}
	if wrapped(place{alice, "a"}) != wrapped(place{alice, "b"}) {
		t.Error("a user has two data keys")
	}
	if wrapped(place{alice, "a"}) == wrapped(place{bob, "a"}) {
		t.Error("two users have one data key")
	}
	if !strings.HasPrefix(wrapped(place{alice, "a"}), "key:a:") {
		t.Error("the id of the key is not there")
	}
}

func FuzzOpen(f *testing.F) {
	s, err := newSealer(localKeys(keyA))
	if err != nil {
		f.Fatal(err)
	}
	at := place{alice, "crm"}
	good, err := s.seal(context.Background(), at, []byte("plain"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("key:a:\n"))
	f.Add([]byte("transit:vault:v1:x\n"))
	f.Fuzz(func(t *testing.T, value []byte) {
		plain, err := s.open(t.Context(), at, value)
		opened := err == nil && string(plain) == "plain" // nothing else was ever sealed, in any of the processes that fuzz
		if !opened && !errors.Is(err, errUnreadable) || bytes.Equal(value, good) && !opened {
			t.Errorf("%q opens: %q %v", value, plain, err)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Transit{URL: "https://vault.example.com:8200", Key: "gatehouse", VaultToken: "t"}
	for name, tt := range map[string]struct {
		cfg  Config
		want string // "" for none
	}{
		"none":     {Config{}, ""},
		"two keys": {localKeys(keyA, keyB), ""},
		"transit":  {Config{Transit: good}, ""},
		"both":     {Config{Keys: localKeys(keyA).Keys, Transit: good}, ""},
		"a weak key": {Config{Keys: []Key{{ID: "a", Key: mcp.Secret(strings.Repeat("ab", 16))}}},
			"keys[0]: key: 2 different bytes are too few"},
		"no key":            {Config{Keys: []Key{{ID: "a"}}}, "keys[0]: key: is needed"},
		"no id":             {Config{Keys: []Key{{Key: keyA}}}, "keys[0]: id: want"},
		"an id with a line": {Config{Keys: []Key{{ID: "a\n", Key: keyA}}}, "keys[0]: id: want"},
		"one id twice": {Config{Keys: []Key{{ID: "a", Key: keyA}, {ID: "a", Key: keyB}}},
			"keys[1]: id: \"a\" is that of another key"},
		"too many": {Config{Keys: make([]Key, mostKeys+1)}, "keys: 21 are more than 20"},
		"transit by http": {Config{Transit: Transit{URL: "http://vault.example.com", Key: "k", VaultToken: "t"}},
			"transit: url: http is only for loopback"},
		"transit with a user": {Config{Transit: Transit{URL: "https://u:s3cret@vault.example.com", Key: "k",
			VaultToken: "t"}}, "transit: url: is not an absolute URL without user"},
		"transit without url": {Config{Transit: Transit{Key: "k", VaultToken: "t"}}, "transit: url: is needed"},
		"transit without key": {Config{Transit: Transit{URL: good.URL, VaultToken: "t"}}, "transit: key: is needed"},
		"transit without token": {Config{Transit: Transit{URL: good.URL, Key: "k"}},
			"transit: token or token_file is needed"},
		"transit, two tokens": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", TokenFile: "f"}}, ""},
		"transit, a mount": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", Mount: "/a/"}},
			"transit: mount:"},
		"transit, a namespace": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", Namespace: "a b"}},
			"transit: namespace:"},
		"transit, half a pair": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", CertFile: "c"}},
			"transit: cert_file and key_file"},
		"transit, a long cache": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", Cache: 48 * time.Hour}},
			"transit: cache: 48h0m0s"},
		"transit, no timeout": {Config{Transit: Transit{URL: good.URL, Key: "k", VaultToken: "t", Timeout: -1}},
			"transit: timeout:"},
	} {
		err := tt.cfg.Validate()
		if (err == nil) != (tt.want == "") || err != nil &&
			(!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

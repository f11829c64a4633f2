package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

func newKey(t testing.TB, secret []byte, purpose string) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(secret, purpose)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpen(t *testing.T) {
	k := newKey(t, secret, "state")
	tests := []struct {
		name  string
		plain string
		bound []string
	}{
		{"nothing", "", nil},
		{"text", "hello", nil},
		{"bound", "hello", []string{"user", "crm__export"}},
		{"bound to nothing, twice", "hello", []string{"", ""}},
		{"bound to something long", "hello", []string{strings.Repeat("x", 1000)}},
		{"long", strings.Repeat("x", 100_000), []string{"user"}},
		{"binary", "\x00\xff\x00", []string{"\x00"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sealed := k.Seal([]byte(tt.plain), tt.bound...)
			if strings.Trim(sealed, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				t.Errorf("%.100q is not base64url without padding", sealed)
			}
			if k.Seal([]byte(tt.plain), tt.bound...) == sealed {
				t.Error("sealing twice gives the same text")
			}
			// A replica with the same secret opens it.
			for range 2 { // and opening changes nothing
				got, err := newKey(t, secret, "state").Open(sealed, tt.bound...)
				if err != nil || string(got) != tt.plain {
					t.Errorf("got %.100q, %v", got, err)
				}
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	k := newKey(t, secret, "state")
	sealed := k.Seal([]byte("hello"), "user", "name")
	random, err := seal.NewRandom("state")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		key    *seal.Key
		sealed string
		bound  []string
	}{
		{"another user", k, sealed, []string{"other", "name"}},
		{"another order", k, sealed, []string{"name", "user"}},
		{"nothing bound", k, sealed, nil},
		{"less bound", k, sealed, []string{"user"}},
		{"more bound", k, sealed, []string{"user", "name", ""}},
		{"another division", k, sealed, []string{"username", ""}},
		{"another division with the length in it", k, sealed, []string{"user\x04name"}},
		{"another purpose", newKey(t, secret, "cursor"), sealed, []string{"user", "name"}},
		{"another secret", newKey(t, []byte("fedcba9876543210fedcba9876543210"), "state"), sealed, []string{"user", "name"}},
		{"a random key", random, sealed, []string{"user", "name"}},
		{"empty", k, "", []string{"user", "name"}},
		{"not base64", k, "!" + sealed[1:], []string{"user", "name"}},
		{"padded", k, sealed + "=", []string{"user", "name"}},
		{"a line break in it", k, sealed[:8] + "\n" + sealed[8:], []string{"user", "name"}},
		{"a line break after it", k, sealed + "\r\n", []string{"user", "name"}},
		{"cut", k, sealed[:len(sealed)-4], []string{"user", "name"}},
		{"very short", k, sealed[:4], []string{"user", "name"}},
		{"longer", k, sealed + "AAAA", []string{"user", "name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.key.Open(tt.sealed, tt.bound...); !errors.Is(err, seal.ErrInvalid) || got != nil {
				t.Errorf("got %q, %v, want ErrInvalid", got, err)
			}
		})
	}
	if _, err := k.Open(sealed, "user", "name"); err != nil {
		t.Errorf("the untouched text: %v", err)
	}
}

// A sealed value has exactly one text: no other encoding of its bytes opens.
func TestOpenEveryChange(t *testing.T) {
	k := newKey(t, secret, "state")
	sealed := []byte(k.Seal([]byte("hello!"), "user"))
	for i := range sealed {
		for _, c := range []byte("ABab01-_\n=\x00") {
			changed := bytes.Clone(sealed)
			changed[i] = c
			if got, err := k.Open(string(changed), "user"); err == nil && !bytes.Equal(changed, sealed) {
				t.Errorf("with %q at %d it opens: %q", c, i, got)
			}
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(sealed))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(raw) * 8 {
		changed := bytes.Clone(raw)
		changed[i/8] ^= 1 << (i % 8)
		if _, err := k.Open(base64.RawURLEncoding.EncodeToString(changed), "user"); err == nil {
			t.Errorf("with bit %d changed it opens", i)
		}
	}
}

// TestWeakSecrets: a secret that was not drawn at random is refused.
func TestWeakSecrets(t *testing.T) {
	tests := []struct {
		name   string
		secret []byte
		want   string // a part of the error
	}{
		{"nothing", nil, "at least 32"},
		{"one byte", []byte("x"), "at least 32"},
		{"31 bytes", []byte("0123456789abcdef0123456789abcde"), "at least 32"},
		{"zeros", make([]byte, 33), "too few to be random"},
		{"one letter", bytes.Repeat([]byte("a"), 64), "too few to be random"},
		{"a word, again and again", bytes.Repeat([]byte("changeme"), 8), "too few to be random"},
		{"seven different bytes", bytes.Repeat([]byte("1234567"), 10), "too few to be random"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, err := range map[string]error{
				"Check":    seal.Check(tt.secret),
				"NewKey":   second(seal.NewKey(tt.secret, "state")),
				"accepted": second(seal.NewKey(secret, "state", tt.secret)),
			} {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: got %v, want %q", name, err, tt.want)
				}
			}
		})
	}
	for range 1000 { // the weakest form of what openssl prints
		random := make([]byte, 16)
		rand.Read(random)
		if err := seal.Check([]byte(hex.EncodeToString(random))); err != nil {
			t.Fatalf("%x: %v", random, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// While a secret is being replaced, each replica opens what the others have sealed.
func TestAcceptedSecrets(t *testing.T) {
	other := []byte("fedcba9876543210fedcba9876543210")
	before, after := newKey(t, secret, "state"), newKey(t, other, "state")
	changing, err := seal.NewKey(other, "state", secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]*seal.Key{"the old one": before, "the new one": after,
		"the new one of two": changing} {
		if got, err := changing.Open(by.Seal([]byte("hello"), "user"), "user"); err != nil || string(got) != "hello" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if _, err := changing.Open(by.Seal([]byte("hello"), "user"), "other"); err == nil {
			t.Errorf("%s: it opens for another user", name)
		}
	}
	if _, err := after.Open(changing.Seal([]byte("hello"))); err != nil {
		t.Errorf("it does not seal with the new one: %v", err)
	}
	if _, err := before.Open(changing.Seal([]byte("hello"))); err == nil {
		t.Error("it seals with the old one")
	}
	if changing.Name("x") != after.Name("x") || changing.Name("x") == before.Name("x") {
		t.Error("names are not those of the new one")
	}
}

func TestName(t *testing.T) {
	k := newKey(t, secret, "state")
	name := k.Name("user", "tool")
	if len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" ||
		name != newKey(t, secret, "state").Name("user", "tool") {
		t.Errorf("the name is %q", name)
	}
	for _, other := range []string{k.Name("user"), k.Name("usertool"), k.Name("tool", "user"), k.Name("user", "tool", ""),
		newKey(t, secret, "cursor").Name("user", "tool")} {
		if other == name {
			t.Errorf("%q names something else, too", name)
		}
	}
}

// SealBytes and Seal have the same content, and SealBytes adds exactly Overhead bytes.
func TestSealBytes(t *testing.T) {
	k := newKey(t, secret, "state")
	sealed := k.SealBytes([]byte("hello"), "user")
	if len(sealed) != len("hello")+seal.Overhead {
		t.Errorf("it has %d bytes", len(sealed))
	}
	if got, err := k.Open(base64.RawURLEncoding.EncodeToString(sealed), "user"); err != nil || string(got) != "hello" {
		t.Errorf("as a text: %q, %v", got, err)
	}
	for _, bad := range [][]byte{nil, sealed[:seal.Overhead-1], append(bytes.Clone(sealed), 0)} {
		if got, err := k.OpenBytes(bytes.Clone(bad), "user"); !errors.Is(err, seal.ErrInvalid) || got != nil {
			t.Errorf("%x: got %q, %v", bad, got, err)
		}
	}
	if got, err := k.OpenBytes(sealed, "user"); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSealConcurrently(t *testing.T) {
	k := newKey(t, secret, "state")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				if got, err := k.Open(k.Seal([]byte("x"), "u"), "u"); err != nil || string(got) != "x" {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzOpen(f *testing.F) {
	k := newKey(f, secret, "state")
	f.Add(k.Seal([]byte("hello"), "a", "b"), "a", "b")
	f.Add("", "", "")
	f.Add("AAAA", "a", "b")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		if plain, err := k.Open(text, a, b); err == nil && (a != "a" || b != "b" || string(plain) != "hello") {
			t.Errorf("%q opens as %q", text, plain)
		}
		sealed := k.Seal([]byte(text), a, b)
		if plain, err := k.Open(sealed, a, b); err != nil || string(plain) != text {
			t.Errorf("there and back: %q, %v", plain, err)
		}
		if _, err := k.Open(sealed, a+b, ""); err == nil && b != "" {
			t.Errorf("bound to %q and %q, it opens with both in one", a, b)
		}
	})
}

func BenchmarkSealOpen(b *testing.B) {
	k := newKey(b, secret, "state")
	plain := []byte(strings.Repeat("x", 200))
	sealed := k.Seal(plain, "0123456789abcdef0123456789abcdef", "crm__export")
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k.Seal(plain, "0123456789abcdef0123456789abcdef", "crm__export")
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Open(sealed, "0123456789abcdef0123456789abcdef", "crm__export"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package apikey

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func entryOf(t *testing.T) (string, Entry) {
	t.Helper()
	key, id := New()
	return key, Entry{ID: id, Hash: Hash(key), User: "ci-bot"}
}

// TestKeyForm: a key can be found by scanners, has 256 random bits, and no two are alike.
func TestKeyForm(t *testing.T) {
	seen := make(map[string]bool)
	for range 200 {
		key, id := New()
		got, err := idOf(key)
		if err != nil || got != id || !strings.HasPrefix(key, "ghk_") || len(key) != 63 || seen[key] || seen[id] {
			t.Fatalf("%q: id %q, %v", key, got, err)
		}
		seen[key], seen[id] = true, true
	}
}

// TestKeyIsWhole: the checksum finds every single letter that is wrong, and keys that were cut.
func TestKeyIsWhole(t *testing.T) {
	key, _ := New()
	for i := len(Prefix); i < len(key); i++ {
		wrong := byte('x')
		if key[i] == wrong {
			wrong = 'y'
		}
		if _, err := idOf(key[:i] + string(wrong) + key[i+1:]); err == nil {
			t.Errorf("letter %d may be wrong", i)
		}
		if _, err := idOf(key[:i]); err == nil {
			t.Errorf("the first %d letters are a key", i)
		}
	}
	for _, bad := range []string{"", key + "0", key[1:], " " + key, strings.Replace(key, "_", "-", 1),
		key[:20] + "é" + key[22:]} {
		if _, err := idOf(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}

func TestFind(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	good, e := entryOf(t)
	e.Groups, e.Expires = []string{"a"}, now.Add(time.Second).Format(time.RFC3339)
	revoked, gone := entryOf(t)
	gone.Revoked = "2030-01-01T00:00:00Z"
	forever, always := entryOf(t)
	table := NewTable([]Entry{e, gone, always})
	f, err := table.Find(good, now)
	if err != nil || f.User != "ci-bot" || f.Groups[0] != "a" || !f.Ends.Equal(now.Add(time.Second)) || !f.Fresh(now) {
		t.Fatalf("%+v, %v", f, err)
	}
	if f, err = table.Find(good, now); err != nil || f.Fresh(now) {
		t.Errorf("again: %+v, %v", f, err)
	}
	if _, err := table.Find(good, now.Add(time.Second)); !errors.Is(err, ErrExpired) {
		t.Errorf("at its end: %v", err)
	}
	if _, err := table.Find(revoked, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	if f, err := table.Find(forever, now); err != nil || !f.Ends.IsZero() {
		t.Errorf("forever: %+v, %v", f, err)
	}
	if f, err := table.Find(forever, now.Add(time.Minute)); err != nil || !f.Fresh(now.Add(time.Minute)) {
		t.Errorf("a minute later: %+v, %v", f, err)
	}
	other, _ := New()
	if _, err := table.Find(other, now); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

// TestKeyForgery: whoever knows the id of a key, which is no secret, has no key, and does not even
// learn that the key has ended.
func TestKeyForgery(t *testing.T) {
	key, e := entryOf(t)
	e.Expires = "2020-01-01T00:00:00Z"
	table := NewTable([]Entry{e})
	body := key[:len(Prefix)+IDLength] + random(secretLength)
	if _, err := table.Find(body+checksum(body), time.Now()); !errors.Is(err, ErrUnknown) {
		t.Errorf("a forged key: %v", err)
	}
	if _, err := table.Find(e.Hash, time.Now()); err == nil {
		t.Error("the hash is a key")
	}
}

// TestAgain: a key that was found is found again by its id, as long as it is good.
func TestAgain(t *testing.T) {
	key, e := entryOf(t)
	revoked := e
	revoked.Revoked = "2026-01-01T00:00:00Z"
	found, err := NewTable([]Entry{e}).Find(key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		table *Table
		want  error
	}{
		"the same": {NewTable([]Entry{e}), nil}, "revoked": {NewTable([]Entry{revoked}), ErrRevoked},
		"gone": {NewTable(nil), ErrUnknown},
	} {
		if again, err := tt.table.Again(found.ID, time.Now()); !errors.Is(err, tt.want) ||
			err == nil && again.User != found.User {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
	}
}

func TestCheck(t *testing.T) {
	key, good := entryOf(t)
	change := func(do func(*Entry)) Entry { e := good; do(&e); return e }
	tests := []struct {
		name string
		e    Entry
		want string // "" for nothing
	}{
		{"good", good, ""},
		{"everything", change(func(e *Entry) {
			e.Groups, e.Scopes, e.Views, e.Name = []string{"a b"}, []string{"x"}, []string{"sales"}, "nightly"
			e.Created, e.Expires, e.Revoked = "2026-01-01T00:00:00Z", "2027-01-01T00:00:00+02:00", "2026-02-01T00:00:00Z"
		}), ""},
		{"no id", change(func(e *Entry) { e.ID = "" }), "keys[0]: id: want"},
		{"the key as id", change(func(e *Entry) { e.ID = key }), "keys[0]: id: want"},
		{"the key as hash", change(func(e *Entry) { e.Hash = key }), "keys[0]: hash: this is a key"},
		{"no hash", change(func(e *Entry) { e.Hash = "abc" }), "keys[0]: hash: want"},
		{"capitals", change(func(e *Entry) { e.Hash = strings.Repeat("AB", 32) }), "keys[0]: hash: want"},
		{"no user", change(func(e *Entry) { e.User = "" }), "keys[0]: user"},
		{"a user with a newline", change(func(e *Entry) { e.User = "a\nb" }), "keys[0]: user"},
		{"an empty group", change(func(e *Entry) { e.Groups = []string{""} }), "keys[0]: groups"},
		{"two scopes in one", change(func(e *Entry) { e.Scopes = []string{"a b"} }), "keys[0]: scopes"},
		{"no views", change(func(e *Entry) { e.Views = []string{} }), "keys[0]: views"},
		{"a day", change(func(e *Entry) { e.Expires = "2027-01-01" }), "keys[0]: expires"},
	}
	for _, tt := range tests {
		err := File{Keys: []Entry{tt.e}}.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && strings.Contains(err.Error(), key[14:30]) {
			t.Errorf("%s: the message tells the key: %v", tt.name, err)
		}
	}
	if err := (File{Keys: []Entry{good, good}}).Validate(); err == nil ||
		!strings.Contains(err.Error(), "keys[1]: id: there is another key") {
		t.Errorf("twice: %v", err)
	}
	if err := (File{Keys: []Entry{good}}).CheckWith(Config{Entries: []Entry{good}}); err == nil {
		t.Error("in both places: no error")
	}
	if err := CheckViews("keys", []Entry{{Views: []string{"a", "b"}}}, []string{"a"}); err == nil ||
		!strings.Contains(err.Error(), `"b"`) {
		t.Errorf("views: %v", err)
	}
}

func TestDoubts(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	var all []Entry
	for _, e := range []Entry{{}, {Expires: "2027-11-23T12:00:00Z"}, {Expires: "2026-11-25T12:00:00Z"},
		{Expires: "2026-11-20T12:00:00Z"}, {Revoked: "2026-11-20T12:00:00Z"}} {
		e.ID, e.User = "abc", "bot"
		all = append(all, e)
	}
	pasted, _ := New()
	all = append(all, Entry{ID: pasted, User: "bot"}) // which is a problem, and no warning may tell it
	got := Doubts("keys", all, now, 14*24*time.Hour).Error()
	want := "keys[0]: expires: the key ghk_abc of bot never ends: who finds it can use it until somebody revokes it\n" +
		"keys[2]: expires: the key ghk_abc of bot ends 2026-11-25T12:00:00Z: make a new one before that\n" +
		"keys[3]: expires: the key ghk_abc of bot has ended: make a new one, or take the entry out"
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// FuzzFind: no text but the key itself is good.
func FuzzFind(f *testing.F) {
	key, id := New()
	table := NewTable([]Entry{{ID: id, Hash: Hash(key), User: "ci"}})
	f.Add(key)
	f.Add(key[:40])
	f.Add(Prefix + id)
	f.Fuzz(func(t *testing.T, text string) {
		if found, err := table.Find(text, time.Now()); (err == nil) != (text == key) {
			t.Errorf("%q: %+v, %v", text, found, err)
		}
	})
}

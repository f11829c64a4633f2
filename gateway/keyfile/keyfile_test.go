package keyfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
)

func entry(user string) apikey.Entry {
	key, id := apikey.New()
	return apikey.Entry{ID: id, Hash: apikey.Hash(key), User: user, Expires: "2027-01-01T00:00:00Z"}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func expect(t *testing.T, path string, want ...apikey.Entry) {
	t.Helper()
	got, err := Entries(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

// TestAppendAndRevoke: what is written is read again, whatever stands around it.
func TestAppendAndRevoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "keys.yaml")
	a, b, c := entry("ci-bot"), entry("true"), entry(`o"brien: #1`)
	b.Groups, b.Scopes, b.Views, b.Name = []string{"a", "b c"}, []string{"mcp:read"}, []string{"sales"}, "- \u202e nightly"
	for _, e := range []apikey.Entry{a, b, c} {
		if err := Append(path, e); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, path, a, b, c)
	now := time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)
	if err := Revoke(path, apikey.Prefix+b.ID, now); err != nil {
		t.Fatal(err)
	}
	b.Revoked = "2026-11-23T16:00:00Z"
	expect(t, path, a, b, c)
	if err := Revoke(path, b.ID, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("twice: %v", err)
	}
	if err := Revoke(path, "nothing", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("of none: %v", err)
	}
	if err := Revoke(path, apikey.Prefix+strings.Repeat("x", 59), now); !errors.Is(err, ErrWholeKey) {
		t.Errorf("a whole key: %v", err)
	}
}

// TestChangeKeepsTheRest: comments and the order of keys stay, and what cannot be changed for sure
// stays as it is.
func TestChangeKeepsTheRest(t *testing.T) {
	a, b := entry("a"), entry("b")
	text := "# ours\nkeys:\n# the first\n- user: a # somebody\n  id: " + a.ID + "\n  hash: " + a.Hash +
		"\n  expires: 2027-01-01T00:00:00Z\n"
	path := write(t, text)
	if err := Append(path, b); err != nil {
		t.Fatal(err)
	}
	if err := Revoke(path, a.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(got),
		"# ours\nkeys:\n# the first\n- user: a # somebody\n  id: "+a.ID+"\n  revoked: 2") {
		t.Errorf("%s, %v", got, err)
	}
	for name, text := range map[string]string{
		"one line":    "keys: [{id: " + a.ID + ", hash: " + a.Hash + ", user: a}]\n",
		"an alias":    "x: &a 1\nkeys: []\n",
		"not a list":  "keys: 1\n",
		"unknown key": "keys:\n- id: " + a.ID + "\n  hash: " + a.Hash + "\n  usr: a\n",
	} {
		path := write(t, text)
		if Append(path, b) == nil || Revoke(path, a.ID, time.Now()) == nil {
			t.Errorf("%s: no error", name)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: now %s, %v", name, got, err)
		}
	}
	empty := write(t, "keys: []\n")
	if err := Append(empty, b); err != nil {
		t.Fatal(err)
	}
	expect(t, empty, b)
}

// TestLoad: problems and warnings have their lines in the file of keys.
func TestLoad(t *testing.T) {
	a, b := entry("a"), entry("b")
	b.Views, b.Expires = []string{"sales", "nothing"}, ""
	path := write(t, "keys:\n"+Text(a)+Text(b)+"  - id: short\n    hash: ${env:HOME}\n    user: c\n")
	r := Load(path, apikey.Config{Entries: []apikey.Entry{a}}, []string{"sales"}, false)
	var got []string
	for _, p := range append(r.Problems, r.Warnings...) {
		got = append(got, strings.TrimPrefix(p.String(), path+":"))
	}
	want := []string{
		"2: keys[0].id: there is another key", "9: keys[1].views: \"nothing\" is none of views", "10: keys[2].id: want",
		"11: keys[2].hash: ${env:HOME}: ",
		"6: keys[1].expires: the key ghk_" + b.ID + " of b never ends", "10: keys[2].expires: ",
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	none := filepath.Join(t.TempDir(), "none")
	if r := Load(none, apikey.Config{}, nil, false); len(r.Problems) != 1 ||
		!strings.Contains(r.Problems[0].Message, "cannot be read") {
		t.Errorf("no file: %v", r.Problems)
	}
	if r := Load(none, apikey.Config{}, nil, true); len(r.Problems) != 0 || len(r.Warnings) != 1 {
		t.Errorf("no file yet: %v, %v", r.Problems, r.Warnings)
	}
}

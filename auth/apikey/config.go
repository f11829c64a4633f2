package apikey

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gatehouse-mcp/gatehouse/internal/problems"
)

const (
	// MaxFile bounds a file of keys, in bytes.
	MaxFile = 8 << 20
	// maxKeys bounds the keys of a gateway.
	maxKeys = 10_000
	maxName = 255 // bytes of a user, as in tokens
	maxList = 500 // groups, scopes or views of a key, as in tokens
)

// Config is the section "auth.keys".
type Config struct {
	// File is a file with entries, under "keys", which "gatehouse key new" writes. It is read again when it
	// changes.
	File string `yaml:"file"`
	// Entries stand in the configuration itself.
	Entries []Entry `yaml:"entries"`
	// Filed are the entries of the file. The loader of the configuration fills them in.
	Filed []Entry `yaml:"-"`
}

// File is the content of a file of keys.
type File struct {
	Keys []Entry `yaml:"keys"`
}

// Entry says what a key is good for. "gatehouse key new" writes it.
type Entry struct {
	// ID is the part of the key that finds the entry.
	ID string `yaml:"id" json:"id"`
	// Hash is the SHA-256 of the key, in hex.
	Hash string `yaml:"hash" json:"hash"`
	// User is the caller's name for policy, limits and records. Policy knows such callers by the issuer
	// "keys", too.
	User string `yaml:"user" json:"user"`
	// Groups and Scopes are those of the user. Default: none.
	Groups []string `yaml:"groups" json:"groups,omitempty"`
	Scopes []string `yaml:"scopes" json:"scopes,omitempty"`
	// Views are the only views with endpoints where the key is good. Default: every endpoint.
	Views []string `yaml:"views" json:"views,omitempty"`
	// Name says what the key is for, to people.
	Name string `yaml:"name" json:"name,omitempty"`
	// Created is when the key was made, in RFC 3339.
	Created string `yaml:"created" json:"created,omitempty"`
	// Expires is when it ends. Default: never.
	Expires string `yaml:"expires" json:"expires,omitempty"`
	// Revoked is since when it is refused. Default: it is not.
	Revoked string `yaml:"revoked" json:"revoked,omitempty"`
}

// IsZero reports whether there are no keys.
func (c Config) IsZero() bool { return c.File == "" && len(c.Entries) == 0 }

// All returns the entries of the configuration and of the file.
func (c Config) All() []Entry { return slices.Concat(c.Entries, c.Filed) }

// Validate reports everything that is wrong with the entries in the configuration.
func (c Config) Validate() error { return check("entries", c.Entries, nil) }

// Validate reports everything that is wrong with a file, which must have no key of those.
func (f File) Validate() error { return check("keys", f.Keys, nil) }

// CheckWith reports the keys of a file that stand in the configuration, too.
func (f File) CheckWith(c Config) error { return check("keys", f.Keys, c.Entries) }

func check(list string, entries, others []Entry) error {
	if n := len(entries) + len(others); n > maxKeys {
		return fmt.Errorf("%s: %d keys are more than %d", list, n, maxKeys)
	}
	var found problems.List
	ids := make(map[string]bool, len(entries)+len(others))
	for _, e := range others {
		ids[e.ID] = true
	}
	for i, e := range entries {
		path := fmt.Sprintf("%s[%d]", list, i)
		found.At(path, e.check()...)
		found.When(ids[e.ID] && e.ID != "", "%s: id: there is another key %q", path, e.ID)
		ids[e.ID] = true
	}
	return found.Err()
}

func (e Entry) check() (found problems.List) {
	found.When(len(e.ID) != IDLength || strings.Trim(e.ID, letters) != "",
		"id: want the %d letters and digits after %s in a key: gatehouse key new writes entries", IDLength, Prefix)
	if sum, err := hex.DecodeString(e.Hash); Has(e.Hash) {
		found.Add("hash: this is a key: let only its user have it, revoke it, and write the hash that gatehouse key new printed")
	} else if err != nil || len(sum) != hashBytes || e.Hash != strings.ToLower(e.Hash) {
		found.Add("hash: want the %d hex digits of the key's SHA-256", 2*hashBytes)
	}
	found.When(!isName(e.User), "user: want a name of at most %d bytes, without control characters", maxName)
	found.When(e.Name != "" && !isName(e.Name), "name: want at most %d bytes, without control characters", maxName)
	for _, list := range []struct {
		key    string
		values []string
		good   func(string) bool
	}{{"groups", e.Groups, isName}, {"scopes", e.Scopes, isScope}, {"views", e.Views, isName}} {
		found.When(len(list.values) > maxList, "%s: %d are more than %d", list.key, len(list.values), maxList)
		for _, value := range list.values {
			found.When(!list.good(value), "%s: %.100q cannot be one", list.key, value)
		}
	}
	found.When(e.Views != nil && len(e.Views) == 0,
		"views: is empty, which would be no endpoint: name some, or take the key out for all")
	for _, at := range []struct{ key, text string }{{"created", e.Created}, {"expires", e.Expires},
		{"revoked", e.Revoked}} {
		if _, err := moment(at.text); err != nil {
			found.Add("%s: %.40q is not a time such as 2026-12-31T23:59:59Z", at.key, at.text)
		}
	}
	return found
}

// Ends returns when a key of a valid entry ends; zero for never.
func (e Entry) Ends() time.Time {
	at, _ := moment(e.Expires)
	return at
}

// Gone returns when a key of a valid entry was revoked; zero for never.
func (e Entry) Gone() time.Time {
	at, _ := moment(e.Revoked)
	return at
}

// moment reads a time; zero for "".
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, text)
}

func isName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, unicode.IsControl)
}

// isScope reports whether a text is a scope-token (RFC 6749 §3.3).
func isScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
}

// CheckViews reports views of entries that the configuration does not have.
func CheckViews(list string, entries []Entry, views []string) error {
	var found problems.List
	for i, e := range entries {
		for _, view := range e.Views {
			found.When(!slices.Contains(views, view), "%s[%d]: views: %q is none of views", list, i, view)
		}
	}
	return found.Err()
}

// Doubts reports keys that end soon, have ended, or never end.
func Doubts(list string, entries []Entry, now time.Time, soon time.Duration) error {
	var found problems.List
	for i, e := range entries {
		key := fmt.Sprintf("%s[%d]: expires: the key %s%s of %s", list, i, Prefix, e.ID, e.User)
		switch ends := e.Ends(); {
		case e.Revoked != "" || len(e.ID) > IDLength: // it may be a whole key
		case ends.IsZero():
			found.Add("%s never ends: who finds it can use it until somebody revokes it", key)
		case !now.Before(ends):
			found.Add("%s has ended: make a new one, or take the entry out", key)
		case ends.Sub(now) < soon:
			found.Add("%s ends %s: make a new one before that", key, e.Expires)
		}
	}
	return found.Err()
}

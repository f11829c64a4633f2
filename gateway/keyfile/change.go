package keyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// heading begins a new file.
const heading = "# API keys of Gatehouse (auth.keys.file). Here are only digests of keys: \"gatehouse key new\" adds one.\n"

// Errors of Revoke.
var (
	ErrNoKey   = errors.New("there is no such key")
	ErrRevoked = errors.New("the key is revoked already")
	// ErrWholeKey is the error for a key in place of its id.
	ErrWholeKey = errors.New("this is longer than the id of a key: write what key list shows, since command lines end up in histories")
)

// Append adds an entry to a file, which it makes if there is none.
func Append(path string, e apikey.Entry) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return alone(path, func() error { return add(path, e) })
}

func add(path string, e apikey.Entry) error {
	before, _, _, err := strictyaml.SeeFile(path, apikey.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return create(path, []byte(heading+"keys:\n"+Text(e)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := whole(path, before)
	if err != nil {
		return err
	}
	after, ok := configtext.Append(string(before), "keys", Text(e))
	if !ok && len(r.Keys) == 0 {
		after, ok = strings.Replace(string(before), "keys: []", "keys:\n"+strings.TrimSuffix(Text(e), "\n"), 1), true
	}
	if !ok {
		return fmt.Errorf("%s: the keys are not written one below the other: add the entry by hand", path)
	}
	return replace(path, before, []byte(after), append(slices.Clone(r.Keys), e))
}

var idLine = regexp.MustCompile(`^(\s*(?:-\s+)?)id:`)

// Revoke marks a key as revoked. The error is ErrNoKey, ErrRevoked or that of the file.
func Revoke(path, id string, now time.Time) error {
	return alone(path, func() error { return revoke(path, id, now) })
}

func revoke(path, id string, now time.Time) error {
	before, _, _, err := strictyaml.SeeFile(path, apikey.MaxFile)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := whole(path, before)
	if err != nil {
		return err
	}
	if id = strings.TrimPrefix(id, apikey.Prefix); len(id) > apikey.IDLength {
		return ErrWholeKey
	}
	i := slices.IndexFunc(r.Keys, func(e apikey.Entry) bool { return e.ID == id })
	switch {
	case i < 0:
		return ErrNoKey
	case r.Keys[i].Revoked != "":
		return ErrRevoked
	}
	lines := strings.SplitAfter(string(before), "\n")
	at := r.doc.Line(fmt.Sprintf("keys[%d].id", i))
	found := idLine.FindStringSubmatch(lines[at-1])
	if found == nil {
		return fmt.Errorf("%s:%d: the entry is not written one key a line: add revoked by hand, or take it out", path, at)
	}
	want := slices.Clone(r.Keys)
	want[i].Revoked = now.UTC().Format(time.RFC3339)
	if !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += "\n"
	}
	lines = slices.Insert(lines, at, strings.Repeat(" ", len(found[1]))+"revoked: "+want[i].Revoked+"\n")
	return replace(path, before, []byte(strings.Join(lines, "")), want)
}

// alone changes a file while no other process does so. Of two that have read the same text, the
// second would remove the addition of the first. Where there are no locks, replace notices most of
// that.
func alone(path string, change func() error) error {
	if leads, err := filepath.EvalSymlinks(path); err == nil {
		path = leads
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		defer dir.Close()
		_ = lock(dir)
	}
	return change()
}

// replace replaces a file if its new text has exactly the wanted entries, and the file has not
// changed meanwhile.
func replace(path string, before, after []byte, want []apikey.Entry) error {
	r, err := whole(path, after)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(r.Keys, want, func(a, b apikey.Entry) bool { return Text(a) == Text(b) }) {
		return fmt.Errorf("%s: it is written in a way that this program cannot change: do it by hand", path)
	}
	return configtext.Replace(path, after, func() error {
		now, _, _, err := strictyaml.SeeFile(path, apikey.MaxFile)
		if err == nil && !bytes.Equal(now, before) {
			err = errors.New("it was changed meanwhile: try again")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// create makes a file, which only its owner can change.
func create(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// plainText matches texts that YAML reads as the same without quotes.
var plainText = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./@-]*$`)

// Text returns an entry as the item of a list, with two spaces in front of each line.
func Text(e apikey.Entry) string {
	var b strings.Builder
	lead := "  - "
	line := func(key, value string) {
		b.WriteString(lead + key + ": " + value + "\n")
		lead = "    "
	}
	text := func(key, value string) {
		if value != "" {
			line(key, scalar(value))
		}
	}
	list := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		all := make([]string, len(values))
		for i, value := range values {
			all[i] = scalar(value)
		}
		line(key, "["+strings.Join(all, ", ")+"]")
	}
	text("id", e.ID)
	text("hash", e.Hash)
	text("user", e.User)
	list("groups", e.Groups)
	list("scopes", e.Scopes)
	list("views", e.Views)
	text("name", e.Name)
	text("created", e.Created)
	text("expires", e.Expires)
	text("revoked", e.Revoked)
	return b.String()
}

// scalar writes a text in quotes, unless it needs none.
func scalar(text string) string {
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainText.MatchString(text) {
			return text
		}
	}
	quoted, _ := json.Marshal(text) // what JSON writes, YAML reads
	return string(quoted)
}

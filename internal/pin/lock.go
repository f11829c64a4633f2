package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// MaxBytes bounds a lock file.
const MaxBytes = 64 << 20

// version is the format that is written. Others are refused.
const version = 1

// Lock is what an operator has approved, by the names of upstreams, sorted. The file has the
// definitions themselves beside their digests, so that a change of it can be reviewed like one
// of a program.
type Lock map[string][]Definition

type lockFile struct {
	Version   int                          `json:"version"`
	Upstreams map[string]map[Kind][]pinned `json:"upstreams"`
}

// pinned is a definition in the file.
type pinned struct {
	Name       string          `json:"name,omitempty"`
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"`
}

// Read reads the text of a lock file. It refuses a digest that is not that of its definition,
// since one of the two was edited by hand, or merged badly.
func Read(text []byte) (Lock, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var file lockFile
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("it is no lock file: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no lock file: something follows it")
	}
	if file.Version != version {
		return nil, fmt.Errorf("version %d: this gateway reads version %d", file.Version, version)
	}
	lock := make(Lock)
	for upstream, lists := range file.Upstreams {
		lock[upstream] = nil
		for kind, list := range lists {
			if !slices.Contains(kinds, kind) {
				return nil, fmt.Errorf("upstream %q: %q is none of %q", upstream, kind, kinds)
			}
			for _, p := range list {
				raw := Canonical(mcp.Raw(p.Definition))
				if p.Digest != DigestOf(raw).String() {
					return nil, fmt.Errorf("upstream %q: %s: %q: the digest is not that of the definition: approve it again with gatehouse lock", upstream, kind, p.Name)
				}
				lock[upstream] = append(lock[upstream], Definition{kind, p.Name, raw})
			}
		}
		slices.SortFunc(lock[upstream], compare)
	}
	return lock, nil
}

// Text returns the text of the lock file. Equal locks have equal texts.
func (l Lock) Text() ([]byte, error) {
	file := lockFile{Version: version, Upstreams: make(map[string]map[Kind][]pinned)}
	for upstream, all := range l {
		lists := make(map[Kind][]pinned)
		for _, d := range slices.SortedFunc(slices.Values(all), compare) {
			lists[d.Kind] = append(lists[d.Kind], pinned{d.Name, DigestOf(d.Raw).String(), json.RawMessage(d.Raw)})
		}
		file.Upstreams[upstream] = lists
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(file)
	return out.Bytes(), err
}

// Write replaces a lock file. Concurrent readers see the old or the new one.
func (l Lock) Write(path string) error {
	text, err := l.Text()
	if err != nil {
		return err
	}
	if len(text) > MaxBytes {
		return fmt.Errorf("%s would have %d bytes; at most %d are read", path, len(text), MaxBytes)
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) // fails once it is renamed
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Chmod(0o644), fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}

// Change is a difference between what is approved and what a server says now.
type Change struct {
	Kind Kind
	Name string
	// Was are the approved definitions, none for something new; Is are those of now, none for
	// something that is gone.
	Was, Is []mcp.Raw
}

// Word says what has happened: new, changed or gone.
func (c Change) Word() string {
	switch {
	case len(c.Was) == 0:
		return "new"
	case len(c.Is) == 0:
		return "gone"
	}
	return "changed"
}

// Compare returns the differences between what a server says now and what is approved, sorted.
func Compare(approved, now []Definition) (changes []Change) {
	type name struct {
		kind Kind
		name string
	}
	was, is, all := make(map[name][]mcp.Raw), make(map[name][]mcp.Raw), make(map[name]Definition)
	add := func(to map[name][]mcp.Raw, definitions []Definition) {
		for _, d := range slices.SortedFunc(slices.Values(definitions), compare) {
			key := name{d.Kind, d.Name}
			to[key], all[key] = append(to[key], d.Raw), Definition{Kind: d.Kind, Name: d.Name}
		}
	}
	add(was, approved)
	add(is, now)
	for _, d := range slices.SortedFunc(maps.Values(all), compare) {
		key := name{d.Kind, d.Name}
		if !slices.EqualFunc(was[key], is[key], func(a, b mcp.Raw) bool { return bytes.Equal(a, b) }) {
			changes = append(changes, Change{d.Kind, d.Name, was[key], is[key]})
		}
	}
	return changes
}

// Add approves one more definition of something, beside those that are approved.
func (l Lock) Add(upstream string, d Definition) {
	at, _ := slices.BinarySearchFunc(l[upstream], d, compare)
	l[upstream] = slices.Insert(l[upstream], at, d)
}

// Approve makes a change the approved state of an upstream.
func (l Lock) Approve(upstream string, c Change) {
	from, to := l.find(upstream, c.Kind, c.Name)
	l[upstream] = slices.Delete(l[upstream], from, to)
	for _, raw := range c.Is {
		l.Add(upstream, Definition{c.Kind, c.Name, raw})
	}
}

// Approved returns what is approved of something.
func (l Lock) Approved(upstream string, kind Kind, name string) (all []mcp.Raw) {
	from, to := l.find(upstream, kind, name)
	for _, d := range l[upstream][from:to] {
		all = append(all, d.Raw)
	}
	return all
}

// find returns where the definitions of something are.
func (l Lock) find(upstream string, kind Kind, name string) (from, to int) {
	all := l[upstream]
	from, _ = slices.BinarySearchFunc(all, Definition{Kind: kind, Name: name}, compare) // no text comes first
	for to = from; to < len(all) && all[to].Kind == kind && all[to].Name == name; {
		to++
	}
	return from, to
}

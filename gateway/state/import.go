package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

// Import keeps what an export has where a configuration keeps it. A gateway alone must have stopped; replicas may
// run, but use what they know for some seconds. It refuses what is not whole, of a newer version, or sealed with keys
// that the configuration does not have; and a place that has something already, unless replace is true: then
// nothing of that stays.
func Import(ctx context.Context, cfg config.Config, path string, replace bool, log *slog.Logger) (r Report, err error) {
	h, items, err := read(path)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	keys, err := KeysOf(cfg, false)
	if err != nil {
		return r, err
	}
	if err := opensAll(ctx, keys, items); err != nil { // before anything is made
		return r, fmt.Errorf("%s of %s: %w", path, h.Time.Format(time.RFC3339), err)
	}
	p, err := openPlace(cfg, keys, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	r = Report{Where: p.what, Counts: make(map[string]int)}
	var rooms []string
	for _, k := range kinds() {
		rooms = append(rooms, k.room)
		there, err := p.Items(ctx, k.room)
		if err != nil {
			return r, fmt.Errorf("%s: %w", k.room, err)
		}
		if len(there) > 0 && !replace {
			return r, fmt.Errorf("%s has %d values of %s already: to have only those of the export, write --replace",
				p.what, len(there), k.room)
		}
	}
	now := time.Now()
	items = slices.DeleteFunc(items, func(i expiring.Item) bool { return !now.Before(i.Until) })
	for _, i := range items {
		r.count(i)
	}
	return r, p.Replace(ctx, rooms, items)
}

// opensAll returns an error if the keys do not open something.
func opensAll(ctx context.Context, keys Keys, items []expiring.Item) error {
	open, err := newOpener(keys)
	if err != nil {
		return err
	}
	defer open.close()
	for _, i := range items {
		opens, err := open.opens(ctx, i)
		if err != nil {
			return fmt.Errorf("opening a value of %s: %w", i.Room, err)
		}
		if !opens {
			return fmt.Errorf("the keys of the configuration do not open its values of %s: name the key with which they were sealed in sessions.previous_keys, or in vault.keys for accounts",
				i.Room)
		}
	}
	return nil
}

// digest matches the names of items and owners.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// read reads an export that is whole.
func read(path string) (h head, items []expiring.Item, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return h, nil, errors.Unwrap(err) // without the path, which the caller names
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if json.Unmarshal(lines[0], &h) != nil || h.Format == 0 {
		return h, nil, errors.New("is no export of gatehouse state")
	}
	if h.Format > format {
		return h, nil, fmt.Errorf("has format %d of gatehouse %s, and this gatehouse knows format %d: import it with that version",
			h.Format, h.Version, format)
	}
	if err := whole(text, lines); err != nil {
		return h, nil, err
	}
	counts := make(map[string]int)
	for n, one := range lines[1 : len(lines)-2] {
		var l line
		if err := json.Unmarshal(one, &l); err != nil || !digest.MatchString(l.Name) ||
			l.Owner != "" && (l.At == nil || !digest.MatchString(l.Owner)) {
			return h, nil, fmt.Errorf("line %d is no item", n+2)
		}
		i := expiring.Item{Room: l.Kind, Name: l.Name, Until: l.Until, Value: l.Value, Owner: l.Owner}
		if l.At != nil {
			i.At = *l.At
		}
		items = append(items, i)
		counts[l.Kind]++
	}
	return h, items, h.check(counts)
}

// whole compares an export with its last line.
func whole(text []byte, lines [][]byte) error {
	var e end
	last := len(lines) - 2 // the text ends with a line break
	if last < 1 || len(lines[last+1]) > 0 || json.Unmarshal(lines[last], &e) != nil {
		return errors.New("is not whole: its end is missing")
	}
	sum := sha256.Sum256(text[:len(text)-len(lines[last])])
	if e.SHA256 != hex.EncodeToString(sum[:]) || e.Items != last-1 {
		return errors.New("was changed: it has another digest than its end says")
	}
	return nil
}

// check compares the kinds of an export with those that this version knows, and with what it has.
func (h head) check(counts map[string]int) error {
	known := make(map[string]kind)
	for _, k := range kinds() {
		known[k.room] = k
	}
	for name, has := range h.Kinds {
		k, ok := known[name]
		if !ok || has.Version > k.version() {
			return fmt.Errorf("has %s of version %d, which gatehouse %s has written: import it with that version", name,
				has.Version, h.Version)
		}
		if counts[name] != has.Count {
			return fmt.Errorf("has %d items of %s, and says %d", counts[name], name, has.Count)
		}
		delete(counts, name)
	}
	for name := range counts {
		return fmt.Errorf("has items of %s, which its head does not name", name)
	}
	return nil
}

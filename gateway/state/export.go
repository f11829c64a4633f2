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
	"path/filepath"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

// An export has a line for its head, one for each item, and one for its end. Each is a JSON object. Values are as
// sealed as they were: an export is of no use without the keys.
const format = 1

// head is the first line.
type head struct {
	Format  int             `json:"gatehouse_state"`
	Version string          `json:"version"` // of the program
	Time    time.Time       `json:"time"`
	From    string          `json:"from"`
	Kinds   map[string]held `json:"kinds"`
}

// held is what an export has of a kind.
type held struct {
	Version int `json:"version"`
	Count   int `json:"count"`
}

// line is one item: a value, or the order in which values of an owner were kept.
type line struct {
	Kind  string     `json:"kind"`
	Name  string     `json:"name"`
	Until time.Time  `json:"until"`
	Value []byte     `json:"value,omitempty"`
	Owner string     `json:"owner,omitempty"`
	At    *time.Time `json:"at,omitempty"`
}

// end is the last line, with the digest of all before it.
type end struct {
	Items  int    `json:"items"`
	SHA256 string `json:"sha256"`
}

// Report is what was moved.
type Report struct {
	Where  string         `json:"where"`  // the file of the state, or Redis
	Counts map[string]int `json:"counts"` // values by kind; those that tell the order for an owner are not counted
	// Unopened are values that the keys of the configuration do not open, and that were left out.
	Unopened int `json:"unopened"`
}

// count adds an item.
func (r *Report) count(i expiring.Item) {
	if i.Owner == "" {
		r.Counts[i.Room]++
	}
}

// Total returns the number of values.
func (r Report) Total() (n int) {
	for _, count := range r.Counts {
		n += count
	}
	return n
}

// Export writes what a configuration keeps to a file of mode 0600, in place of one that is there. A gateway alone
// must have stopped; replicas may run. Without partial, it refuses what the keys do not open, and writes nothing: the
// keys may be the wrong ones. With it, such values are left out, since they are of no use anywhere.
func Export(ctx context.Context, cfg config.Config, path, version string, partial bool, log *slog.Logger) (r Report,
	err error) {
	if directory := cfg.StateDirectory(); directory != "" {
		if _, err := os.Stat(filepath.Join(directory, fileName)); err != nil {
			return r, fmt.Errorf("there is no state to export: %w", err)
		}
	}
	keys, err := KeysOf(cfg, false)
	if err != nil {
		return r, err
	}
	p, err := openPlace(cfg, keys, log)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	open, err := newOpener(p.keys)
	if err != nil {
		return r, err
	}
	defer open.close()
	r = Report{Where: p.what, Counts: make(map[string]int)}
	var body bytes.Buffer
	h := head{Format: format, Version: version, Time: time.Now().UTC(), From: p.what, Kinds: make(map[string]held)}
	items := 0
	for _, k := range kinds() {
		all, err := p.Items(ctx, k.room)
		if err != nil {
			return r, fmt.Errorf("%s: %w", k.room, err)
		}
		before := items
		for _, i := range all {
			opens, err := open.opens(ctx, i)
			if err != nil {
				return r, fmt.Errorf("opening a value of %s: %w", k.room, err)
			}
			if !opens {
				r.Unopened++
				continue
			}
			if err := appendLine(&body, lineOf(i)); err != nil {
				return r, err
			}
			r.count(i)
			items++
		}
		h.Kinds[k.room] = held{k.version(), items - before}
	}
	if r.Unopened > 0 && !partial {
		return r, fmt.Errorf("the keys of the configuration do not open %d values: name those with which they were sealed, or leave the values out with --partial",
			r.Unopened)
	}
	return r, write(path, h, body.Bytes(), items)
}

func lineOf(i expiring.Item) line {
	l := line{Kind: i.Room, Name: i.Name, Until: i.Until.UTC(), Value: i.Value, Owner: i.Owner}
	if i.Owner != "" {
		at := i.At.UTC()
		l.At = &at
	}
	return l
}

func appendLine(to *bytes.Buffer, what any) error {
	text, err := json.Marshal(what)
	to.Write(append(text, '\n'))
	return err
}

// write replaces the file as a whole.
func write(path string, h head, body []byte, items int) error {
	var text bytes.Buffer
	if err := appendLine(&text, h); err != nil {
		return err
	}
	text.Write(body)
	sum := sha256.Sum256(text.Bytes())
	if err := appendLine(&text, end{items, hex.EncodeToString(sum[:])}); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) // fails once it is renamed
	_, err = fresh.Write(text.Bytes())
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}

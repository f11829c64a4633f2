package expiring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// NewFile makes a Store for one process, in a file for its owner alone; the values outlive the process.
// The file is read with the first use, and written with each change. Values beyond most are refused.
func NewFile(path, room string, most int) *Store {
	return &Store{room: room, at: &file{path: path, most: most}}
}

// file is a place in a file. A change that cannot be written has not happened.
type file struct {
	path string
	most int

	mu  sync.Mutex // guards all; held while the file is written
	all map[string]written
}

// written is a value in the file.
type written struct {
	Value []byte    `json:"value"`
	Until time.Time `json:"until"`
}

// change passes decide the value under a name, nil for none. The answer replaces it, nil for none,
// unless it is the same.
func (f *file) change(name string, decide func(now *written) *written) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		text, err := os.ReadFile(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			f.all = make(map[string]written)
		case err != nil:
			return err
		case json.Unmarshal(text, &f.all) != nil || f.all == nil:
			return fmt.Errorf("%s cannot be read: take it away to begin again", f.path)
		}
	}
	var now *written
	if e, known := f.all[name]; known && time.Now().Before(e.Until) {
		now = &e
	}
	next := decide(now)
	if next == now {
		return nil
	}
	all := maps.Clone(f.all)
	maps.DeleteFunc(all, func(_ string, e written) bool { return !time.Now().Before(e.Until) })
	delete(all, name)
	if next != nil {
		if len(all) >= f.most {
			return fmt.Errorf("%s has %d values already", f.path, f.most)
		}
		all[name] = *next
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = replace(f.path, text)
	}
	if err == nil {
		f.all = all
	}
	return err
}

// replace writes a file for its owner alone. Readers see the old or the new one.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name()) // fails once it is renamed
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}

func (f *file) put(_ context.Context, name string, value []byte, life time.Duration) error {
	return f.change(name, func(*written) *written { return &written{value, time.Now().Add(life)} })
}

func (f *file) add(_ context.Context, name string, value []byte, life time.Duration) (added bool, err error) {
	err = f.change(name, func(now *written) *written {
		if added = now == nil; added {
			now = &written{value, time.Now().Add(life)}
		}
		return now
	})
	return added && err == nil, err
}

func (f *file) get(_ context.Context, name string) ([]byte, error) {
	return f.find(name, func(now *written) *written { return now })
}

func (f *file) take(_ context.Context, name string) ([]byte, error) {
	return f.find(name, func(*written) *written { return nil })
}

// find returns what is kept under a name, and then keeps next of it.
func (f *file) find(name string, next func(now *written) *written) (value []byte, err error) {
	found := false
	err = f.change(name, func(now *written) *written {
		if now == nil {
			return nil
		}
		value, found = bytes.Clone(now.Value), true
		return next(now)
	})
	if err == nil && !found {
		err = ErrNone
	}
	return value, err
}

func (f *file) swap(_ context.Context, name string, old, value []byte, life time.Duration) (swapped bool, err error) {
	err = f.change(name, func(now *written) *written {
		if swapped = now != nil && bytes.Equal(now.Value, old); swapped {
			now = &written{value, time.Now().Add(life)}
		}
		return now
	})
	return swapped && err == nil, err
}

func (f *file) drop(_ context.Context, name string) error {
	return f.change(name, func(*written) *written { return nil })
}

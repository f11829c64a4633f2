package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
)

// mostFile bounds the file of a client, in bytes: that of Claude Code can have some megabytes.
const mostFile = 64 << 20

// contents is what is in a file, if it is there.
type contents struct {
	text  string
	there bool
}

// readContents reads a file.
func readContents(path string) (contents, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return contents{}, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostFile) {
		err = errors.New("it is no regular file, or too large")
	}
	if err != nil {
		return contents{}, err
	}
	text, err := os.ReadFile(path)
	return contents{string(text), true}, err
}

// writeContents changes a file from what it has to something else, or not at all if it has something else already. A
// new file is for the user alone.
func writeContents(path string, now, goal contents) error {
	still := func() error {
		again, err := readContents(path)
		if err == nil && again != now {
			err = errors.New("another program has changed it just now: try again")
		}
		return err
	}
	switch {
	case now.there && goal.there:
		return configtext.Replace(path, []byte(goal.text), still)
	case now.there:
		return errors.Join(still(), os.Remove(path))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return writeFresh(path, goal.text, false)
}

// kept is what was in a client's file before the gateway was written into it, and what was written. It is in a
// directory for the user alone.
type kept struct {
	dir           string
	before, after contents // after is not there if nothing is kept
}

// findKept finds what is kept of a file and an entry.
func findKept(t target, name string) (k kept, err error) {
	dir, err := stateHome()
	if err != nil {
		return k, err
	}
	sum := sha256.Sum256([]byte(t.path + "\x00" + name))
	k.dir = filepath.Join(dir, "connect", t.ID+"-"+hex.EncodeToString(sum[:6]))
	k.before, err = readContents(filepath.Join(k.dir, "before"))
	if err == nil {
		k.after, err = readContents(filepath.Join(k.dir, "after"))
	}
	return k, err
}

// undone returns what the file had before. If it has changed since, it returns what it has, with the entry of before
// or without any.
func (k kept) undone(t target, name string, now contents) (contents, error) {
	if now == k.after {
		return k.before, nil
	}
	was, err := t.Get(k.before.text, name)
	if err != nil || !now.there {
		return now, err
	}
	now.text, err = t.Set(now.text, name, was)
	return now, err
}

// save keeps what was in a file, and what is written into it.
func (k kept) save() error {
	err := os.RemoveAll(k.dir)
	if err != nil || !k.after.there {
		return err
	}
	if err = os.MkdirAll(k.dir, 0o700); err == nil && k.before.there {
		err = writeFresh(filepath.Join(k.dir, "before"), k.before.text, false)
	}
	if err == nil {
		err = writeFresh(filepath.Join(k.dir, "after"), k.after.text, false)
	}
	return err
}

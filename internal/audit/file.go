package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// tailBytes is how much of a file's end is searched for its last line: more than any line has.
const tailBytes = 4 << 20

// stamp is in the names of renamed files, so that they sort by age.
const stamp = "20060102T150405.000"

// file is a file of records, and those that it was renamed to. A chain goes on over all of
// them, and over restarts.
type file struct {
	cfg Sink
	log *slog.Logger

	open   *os.File // nil for none
	size   int64
	began  time.Time // when its first record was written
	synced time.Time
	batch  []byte
	last   lastFile
}

func newFile(s Sink, deps Deps) (*file, error) {
	try, err := os.OpenFile(s.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	return &file{cfg: s, log: deps.Log, last: lastFile{path: s.Path + record.LastSuffix, log: deps.Log}}, try.Close()
}

// CheckFile reports that records cannot be written into the file of a sink. It makes none.
func (s Sink) CheckFile() error {
	if s.Type != TypeFile {
		return nil
	}
	there, err := os.OpenFile(s.Path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		return there.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("path: %w", err)
	}
	dir := filepath.Dir(s.Path)
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("path: the directory of the file: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("path: %s is no directory", dir)
	}
	return nil
}

func (f *file) ready(_ context.Context, chain *record.Chain) (at head, err error) {
	if f.open != nil && f.renamed() {
		if err := f.close(); err != nil {
			return at, err
		}
	}
	if f.open == nil {
		at.torn, err = f.reopen(chain)
		if err != nil {
			return at, err
		}
	}
	now := time.Now()
	if f.size > 0 && (f.size >= f.cfg.MaxBytes || f.cfg.MaxAge > 0 && now.Sub(f.began) >= f.cfg.MaxAge) {
		if err := f.rotate(now); err != nil {
			return at, err
		}
		if at.torn, err = f.reopen(chain); err != nil {
			return at, err
		}
	}
	at.fresh, at.last = f.size == 0, filepath.Base(f.last.path)
	return at, nil
}

// renamed reports whether another program has moved the file away. It also notices if the file was
// cut.
func (f *file) renamed() bool {
	there, err := os.Stat(f.cfg.Path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	ours, err := f.open.Stat()
	if err != nil {
		return false
	}
	f.size = min(f.size, ours.Size())
	return !os.SameFile(there, ours)
}

// reopen opens the file. A chain that has just begun continues the records in it, if there are any.
func (f *file) reopen(chain *record.Chain) (torn int64, err error) {
	f.open, err = os.OpenFile(f.cfg.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	torn, err = f.resume(chain)
	if err != nil {
		f.open.Close()
		f.open = nil
	}
	return torn, err
}

func (f *file) resume(chain *record.Chain) (torn int64, err error) {
	if err := lock(f.open); err != nil {
		return 0, fmt.Errorf("another process writes to %s: %w", f.cfg.Path, err)
	}
	info, err := f.open.Stat()
	if err != nil {
		return 0, err
	}
	f.size, f.began, f.synced = info.Size(), time.Now(), time.Now()
	if f.size == 0 {
		f.last.resume(chain)
		return 0, nil
	}
	f.began = f.firstTime()
	last, rest, err := f.lastLine()
	if err != nil {
		return 0, err
	}
	if len(rest) > 0 { // a crash has left it incomplete: what follows is in a line of its own
		if _, err := f.open.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		f.size++
	}
	before, torn := *chain, int64(len(rest))
	if chain.Resume(rest) == nil { // only the line feed was missing
		torn = 0
	} else if chain.Resume(last) != nil && before.Seq == 0 {
		f.log.Warn("audit: the file does not end with a record: it is renamed, and a new one begins",
			failure.AuditTorn.Attr(), "path", f.cfg.Path)
		if err := f.rotate(time.Now()); err != nil {
			return 0, err
		}
		return f.reopen(chain)
	}
	switch {
	case before.Seq == 0:
		f.last.resume(chain)
	case chain.Name != before.Name || chain.Seq < before.Seq: // not what was written last
		*chain = before
	}
	return torn, nil
}

// firstTime returns the time of the first record, now if there is none.
func (f *file) firstTime() time.Time {
	head := make([]byte, 4<<10)
	n, _ := f.open.ReadAt(head, 0) // a short file is fine
	line, _, _ := bytes.Cut(head[:n], []byte{'\n'})
	text, _ := mcp.Raw(line).Member("time")
	began, err := time.Parse(time.RFC3339, text.Text())
	if err != nil {
		return time.Now()
	}
	return began
}

// lastLine returns the last complete line, and what follows it.
func (f *file) lastLine() (line, rest []byte, err error) {
	tail := make([]byte, min(f.size, tailBytes))
	if _, err := f.open.ReadAt(tail, f.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 {
		return nil, tail, nil
	}
	line, rest = tail[:end], tail[end+1:]
	return line[bytes.LastIndexByte(line, '\n')+1:], rest, nil
}

// rotate renames the file, closes it and deletes the oldest ones.
func (f *file) rotate(now time.Time) error {
	ext := filepath.Ext(f.cfg.Path)
	stem := strings.TrimSuffix(f.cfg.Path, ext)
	to := stem + "-" + now.UTC().Format(stamp) + ext
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already", to)
	}
	if err := os.Rename(f.cfg.Path, to); err != nil {
		return err
	}
	err := f.close()
	if f.cfg.Keep == 0 {
		return err
	}
	all := Renamed(f.cfg.Path)
	for len(all) > f.cfg.Keep {
		err = errors.Join(err, os.Remove(all[0]))
		all = all[1:]
	}
	return err
}

// Renamed returns the files that were renamed to make room for the one at path, oldest first.
func Renamed(path string) []string {
	ext := filepath.Ext(path)
	stem := strings.TrimSuffix(path, ext)
	all, _ := filepath.Glob(globbed(stem) + "-*" + globbed(ext)) // the pattern is good
	all = slices.DeleteFunc(all, func(name string) bool {
		_, err := time.Parse(stamp, strings.TrimSuffix(strings.TrimPrefix(name, stem+"-"), ext))
		return err != nil
	})
	slices.Sort(all)
	return all
}

// globbed quotes what has a meaning in patterns.
func globbed(path string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(path)
}

// write writes all lines or, as far as the system lets it, none.
func (f *file) write(_ context.Context, entries []entry) error {
	f.batch = join(f.batch[:0], entries)
	_, err := f.open.Write(f.batch)
	if err == nil && f.cfg.Sync == SyncAlways {
		err = f.open.Sync()
	}
	if err != nil {
		if back := f.open.Truncate(f.size); back != nil {
			f.open.Close() // the next one finds what stands there
			f.open = nil
		}
		return err
	}
	f.size += int64(len(f.batch))
	for _, e := range entries {
		if e.record.Kind == record.KindAnchor {
			f.last.line = append(f.last.line[:0], e.line...)
		}
	}
	switch {
	case f.cfg.Sync != SyncSecond:
		f.last.save()
	case time.Since(f.synced) >= settleAfter:
		return f.sync()
	}
	return nil
}

// sync has the disk take what was written. An error is not one of the write: repeating that
// would record everything twice.
func (f *file) sync() error {
	f.synced = time.Now()
	if err := f.open.Sync(); err != nil {
		f.log.Error("audit: what was written may not be on the disk", failure.AuditSinkDown.Attr(), "path",
			f.cfg.Path, "error", err)
		return nil
	}
	f.last.save()
	return nil
}

func (f *file) settle() error {
	if f.open == nil || f.cfg.Sync != SyncSecond {
		return nil
	}
	return f.sync()
}

func (f *file) close() error {
	if f.open == nil {
		return nil
	}
	var err error
	if f.cfg.Sync != SyncNever {
		err = f.open.Sync()
	}
	if err == nil {
		f.last.save()
	}
	err = errors.Join(err, f.open.Close())
	f.open = nil
	return err
}

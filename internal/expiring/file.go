package expiring

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolt "go.etcd.io/bbolt/errors"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// lockTime is how long the file of another process is waited for, which may be about to end; stepTime is that
	// for a shared file, which others have for a step.
	lockTime = time.Second
	stepTime = 10 * time.Second
	// batchTime is how long a write waits for others, which then share one write to the disk.
	batchTime = time.Millisecond
	// mostInFile bounds the file, in bytes.
	mostInFile = 1 << 30
	// swept bounds the values that a write removes beside its own, because they have ended.
	swept = 16
	// layout is the version of the file.
	layout = "1"
)

// Buckets of the file, beside those of file_tables.go.
const (
	metaBucket = "meta"
	endsBucket = "ends"
	layoutName = "layout"
	probeName  = "probe" // a sealed text, which tells whether the keys are those of the file
)

// ErrInUse is the error of OpenFile for a file that another process has open.
var ErrInUse = errors.New("in use by another process")

// File keeps values that outlive a process: in a file for its owner alone, sealed as in Redis. What is
// written is on the disk. It is safe for concurrent use.
type File struct {
	path string
	most int64 // bytes

	mu sync.Mutex // of a shared file: held in each step
	db *bbolt.DB  // nil between the steps of a shared file
}

// OpenFile opens a file, or makes it if there is none. It refuses one that another process uses, that is
// damaged, that a newer version has written, or that none of the secrets of key has sealed. Close closes it.
func OpenFile(path string, key *seal.Key) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeFile(path, key); err != nil {
			return nil, fmt.Errorf("the state file %s cannot be made: %w", path, err)
		}
	case err != nil:
		return nil, fmt.Errorf("the state file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the state file %s is no file", path)
	case info.Size() == 0:
		return nil, damaged(path, errors.New("it is empty"))
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the state file %s can be read by others: chmod 600 %[1]s", path)
	}
	f := &File{path: path, most: mostInFile}
	if err := f.open(key); err != nil {
		return nil, err
	}
	return f, nil
}

func damaged(path string, err error) error {
	return fmt.Errorf("the state file %s is damaged (%w): nothing was changed; take it away, and restore a backup with gatehouse state import or begin without accounts and grants",
		path, err)
}

// ShareFile is OpenFile for a file that several processes use at a time: each step opens it, and waits for
// those of others, up to ten seconds.
func ShareFile(path string, key *seal.Key) (f *File, err error) {
	for until := time.Now().Add(stepTime); ; {
		if f, err = OpenFile(path, key); !errors.Is(err, ErrInUse) || time.Now().After(until) {
			break
		}
	}
	if err == nil {
		err, f.db = f.db.Close(), nil
	}
	return f, err
}

// step runs a transaction, with the file open.
func (f *File) step(run func(*bbolt.DB, func(*bbolt.Tx) error) error, what func(*bbolt.Tx) error) error {
	if f.db != nil {
		return run(f.db, what)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	db, err := bbolt.Open(f.path, 0o600, &bbolt.Options{Timeout: stepTime,
		// A file that was removed meanwhile is not made again here: what is sealed in it has another key then.
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			return os.OpenFile(name, flag&^os.O_CREATE, mode)
		}})
	if err != nil {
		return err
	}
	db.MaxBatchDelay = batchTime
	return errors.Join(run(db, what), db.Close())
}

// makeFile makes a file that is whole as soon as it is there.
func makeFile(path string, key *seal.Key) error {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	fresh := path + "." + rand.Text()[:8]
	defer os.Remove(fresh)
	db, err := bbolt.Open(fresh, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error { return sign(tx, key) })
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	err = os.Link(fresh, path) // another process may be faster
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(fresh, path) // without links, as on FAT
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDirectory(directory)
}

// syncDirectory makes the name of a new file last.
func syncDirectory(directory string) error {
	if runtime.GOOS == "windows" {
		return nil // which cannot, and needs not
	}
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sign writes what verify wants to see.
func sign(tx *bbolt.Tx, key *seal.Key) error {
	meta, err := tx.CreateBucketIfNotExists([]byte(metaBucket))
	if err != nil {
		return err
	}
	return errors.Join(meta.Put([]byte(layoutName), []byte(layout)),
		meta.Put([]byte(probeName), key.SealBytes([]byte(probeName), metaBucket)))
}

// open takes the lock of the file and looks at all of it.
func (f *File) open(key *seal.Key) (err error) {
	// The file is in memory as it is on the disk: what is damaged may lead outside of it.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = damaged(f.path, fmt.Errorf("%v", r))
		}
	}()
	db, err := bbolt.Open(f.path, 0o600, &bbolt.Options{Timeout: lockTime})
	switch {
	case errors.Is(err, bolt.ErrTimeout):
		return fmt.Errorf("the state file %s is %w: stop it first, or give this one a state.directory of its own", f.path, ErrInUse)
	case err != nil:
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			return fmt.Errorf("the state file: %w", failed)
		}
		return damaged(f.path, err)
	}
	f.db, db.MaxBatchDelay = db, batchTime
	err = db.View(func(tx *bbolt.Tx) error { return f.verify(tx, key) })
	if err == nil {
		err = db.Update(func(tx *bbolt.Tx) error {
			return errors.Join(sign(tx, key), sweep(tx, time.Now(), -1))
		})
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// verify reads everything.
func (f *File) verify(tx *bbolt.Tx, key *seal.Key) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return err
	}
	meta := tx.Bucket([]byte(metaBucket))
	switch {
	case info.Size() < tx.Size():
		return damaged(f.path, fmt.Errorf("%d bytes of %d are there", info.Size(), tx.Size()))
	case meta == nil:
		return damaged(f.path, errors.New("it is that of another program"))
	case string(meta.Get([]byte(layoutName))) != layout:
		return fmt.Errorf("the state file %s has version %q, and this gatehouse knows version %s: a newer gatehouse has written it",
			f.path, meta.Get([]byte(layoutName)), layout)
	}
	if err := readAll(tx); err != nil {
		return damaged(f.path, err)
	}
	var first error
	for err := range tx.Check() {
		if first == nil {
			first = err
		}
	}
	if first != nil {
		return damaged(f.path, first)
	}
	if _, err := key.OpenBytes(bytes.Clone(meta.Get([]byte(probeName))), metaBucket); err != nil {
		return fmt.Errorf("the state file %s was sealed with another key than sessions.key: name that one in sessions.previous_keys",
			f.path)
	}
	return nil
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }

// Close closes the file, for another process. It may be called twice.
func (f *File) Close() error {
	if f.db == nil {
		return nil
	}
	return f.db.Close()
}

// change runs what in one step, and returns when it is on the disk. It may run it twice.
func (f *File) change(what func(tx *bbolt.Tx) error) error {
	err := f.step((*bbolt.DB).Batch, func(tx *bbolt.Tx) error {
		if err := what(tx); err != nil {
			return err
		}
		return sweep(tx, time.Now(), swept)
	})
	if err != nil {
		return fmt.Errorf("the state file %s cannot be written: %w", f.path, err)
	}
	return nil
}

// fits returns an error if the file is as large as it may be.
func (f *File) fits(tx *bbolt.Tx) error {
	free := int64(tx.DB().Stats().FreePageN) * int64(tx.DB().Info().PageSize)
	if used := tx.Size() - free; used > f.most {
		return fmt.Errorf("it has %d bytes, and may have %d", used, f.most)
	}
	return nil
}

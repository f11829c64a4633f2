package skilldir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// pollEvery is how often a listener asks whether it is time to look again.
	pollEvery = 2 * time.Second
	// lookShare is what part of the time may go into looking for changes: 0.4 %.
	lookShare = 250
	// maxWatched bounds the directories of which the system is asked to tell.
	maxWatched = 10_000
)

// restAfter is how long a directory is left alone after a look that took so long. Small
// directories are looked at so often that nobody needs to tell of their changes, whatever
// their file system.
func restAfter(cost time.Duration) time.Duration {
	return min(max(pollEvery, lookShare*cost), fresh)
}

// watch says when a directory of skills is to be looked at again. In large ones,
// where looks are rare, the system is asked to tell of changes: what it tells only makes
// the next look come sooner, so that nothing is lost where it tells nothing, as of network
// file systems. It belongs to those who listen: the last one that leaves closes it.
type watch struct {
	root string
	open func() (*dirWatch, error)

	mu        sync.Mutex // guards the fields below
	listeners int
	told      *dirWatch     // nil while nobody tells
	heard     chan struct{} // closed when nobody hears told any more
	refused   bool          // the system does not tell
	self      os.FileInfo   // the directory itself
	looking   bool          // somebody does

	dirty atomic.Bool // something has changed, or may have
}

// dirWatch tells of changes in directories, as fsnotify.Watcher does: close closes events
// and errors.
type dirWatch struct {
	add, remove func(dir string) error
	list        func() []string
	close       func() error
	events      <-chan fsnotify.Event
	errors      <-chan error
}

// openDirWatch asks the system, where it tells of directories without a file open for each
// of their files.
func openDirWatch() (*dirWatch, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.ErrUnsupported
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &dirWatch{w.Add, w.Remove, w.WatchList, w.Close, w.Events, w.Errors}, nil
}

func (w *watch) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners++
}

func (w *watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners--; w.listeners == 0 {
		w.stop()
		w.refused = false
	}
}

// stop is called with mu held.
func (w *watch) stop() {
	if w.told != nil {
		_ = w.told.close() // there is nothing that could be lost
		<-w.heard
		w.told = nil
	}
}

// hear takes what is told until that is closed. It never waits for mu, whose holder may
// wait for what is told to be taken. Hidden files have no part in skills, but for what
// Kubernetes swaps; and after an error events are missing.
func (w *watch) hear(told *dirWatch, heard chan<- struct{}) {
	defer close(heard)
	for {
		select {
		case event, ok := <-told.events:
			if !ok {
				return
			}
			if name := filepath.Base(event.Name); !strings.HasPrefix(name, ".") || strings.HasPrefix(name, "..") {
				w.dirty.Store(true)
			}
		case _, ok := <-told.errors:
			if !ok {
				return
			}
			w.dirty.Store(true)
		}
	}
}

// due reports whether it is time to look, so long after the last look, which took cost.
// It is said to one of several that ask, who has to say when they have looked.
func (w *watch) due(since, cost time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != nil && !w.dirty.Load() {
		info, err := os.Stat(w.root) // another one may have taken its place
		w.dirty.Store(err != nil || w.self == nil || !os.SameFile(info, w.self))
	}
	if w.looking || since < restAfter(cost) && !(w.dirty.Load() && since >= max(pollEvery/2, 10*cost)) {
		return false
	}
	w.dirty.Store(false)
	w.looking = true
	return true
}

func (w *watch) looked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = false
}

// follow has the system tell of the directories that a look has found, if looks that cost
// so much are rare.
func (w *watch) follow(held *snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == 0 || w.refused {
		return
	}
	self, _ := os.Stat(w.root)
	if w.self != nil && !os.SameFile(self, w.self) { // what is told is about the one before
		w.stop()
	}
	w.self = self
	if w.told == nil {
		if restAfter(held.cost) <= 2*pollEvery {
			return
		}
		told, err := w.open()
		if err != nil {
			w.refused = true
			return
		}
		w.told, w.heard = told, make(chan struct{})
		go w.hear(told, w.heard) // stop waits for it
	}
	watched, wanted := make(map[string]bool), make(map[string]bool)
	for _, dir := range w.told.list() {
		watched[dir] = true
	}
	for _, dir := range held.dirs {
		dir = filepath.Join(w.root, filepath.FromSlash(dir))
		if wanted[dir] {
			continue
		}
		if wanted[dir] = true; watched[dir] {
			continue
		}
		w.dirty.Store(true) // what happened before is told by nobody
		if err := w.told.add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) || len(wanted) > maxWatched {
			w.stop()
			w.refused = true
			return
		}
	}
	for dir := range watched {
		if !wanted[dir] {
			_ = w.told.remove(dir) // it may be gone, and its watch with it
		}
	}
}

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
	// lookShare bounds the time that goes into looking for changes to a 250th: 0.4 %.
	lookShare = 250
	// maxWatched bounds the directories that the system watches for us.
	maxWatched = 10_000
)

// restAfter returns how long a directory is left alone after a look that took cost. Small
// directories are looked at so often that their changes need no notice from the system,
// whatever the file system.
func restAfter(cost time.Duration) time.Duration {
	return min(max(pollEvery, lookShare*cost), fresh)
}

// watch says when a directory of skills is to be looked at again. In large ones, where looks
// are rare, the system is asked for notices of changes: they only make the next look come
// sooner, so nothing is lost where there are none, as on network file systems. It belongs to
// those who listen: the last one that leaves closes it.
type watch struct {
	root string
	open func() (*dirWatch, error)

	mu        sync.Mutex // guards the fields below
	listeners int
	notices   *dirWatch      // nil while there are none
	taking    sync.WaitGroup // one while notices are taken
	refused   bool           // the system gives no notices
	self      os.FileInfo    // the directory itself
	looking   bool           // another caller looks

	dirty atomic.Bool // something has changed, or may have
}

// dirWatch gives notice of changes in directories, as fsnotify.Watcher does: close closes
// events and errors.
type dirWatch struct {
	add, remove func(dir string) error
	list        func() []string
	close       func() error
	events      <-chan fsnotify.Event
	errors      <-chan error
}

// openDirWatch asks the system for notices, where these need no open file for each file of a
// directory.
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

func (w *watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners--; w.listeners == 0 {
		w.stop()
		w.refused = false
	}
}

// stop is called with mu held.
func (w *watch) stop() {
	if w.notices != nil {
		_ = w.notices.close() // there is nothing that could be lost
		w.taking.Wait()
		w.notices = nil
	}
}

// take takes notices until they are closed. It never waits for mu: its holder may wait for notices
// to be taken. Hidden files have no part in skills, except those that Kubernetes swaps; and after
// an error events are missing.
func (w *watch) take(notices *dirWatch) {
	for {
		select {
		case event, ok := <-notices.events:
			if !ok {
				return
			}
			if name := filepath.Base(event.Name); !strings.HasPrefix(name, ".") || strings.HasPrefix(name, "..") {
				w.dirty.Store(true)
			}
		case _, ok := <-notices.errors:
			if !ok {
				return
			}
			w.dirty.Store(true)
		}
	}
}

// due reports whether it is time to look, so long after the last look, which took cost. Only one of
// several callers gets true, and has to call looked in the end.
func (w *watch) due(since, cost time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notices != nil && !w.dirty.Load() {
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

// follow asks the system for notices of the directories that a look has found, if its cost
// makes looks rare.
func (w *watch) follow(held *snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == 0 || w.refused {
		return
	}
	self, _ := os.Stat(w.root)
	if w.self != nil && !os.SameFile(self, w.self) { // the notices are about the one before
		w.stop()
	}
	w.self = self
	if w.notices == nil {
		if restAfter(held.cost) <= 2*pollEvery {
			return
		}
		notices, err := w.open()
		if err != nil {
			w.refused = true
			return
		}
		w.notices = notices
		w.taking.Go(func() { w.take(notices) }) // stop waits for it
	}
	watched, wanted := make(map[string]bool), make(map[string]bool)
	for _, dir := range w.notices.list() {
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
		w.dirty.Store(true) // there is no notice of what happened before
		if err := w.notices.add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) || len(wanted) > maxWatched {
			w.stop()
			w.refused = true
			return
		}
	}
	for dir := range watched {
		if !wanted[dir] {
			_ = w.notices.remove(dir) // it may be gone, and its watch with it
		}
	}
}

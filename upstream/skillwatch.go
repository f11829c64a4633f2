package upstream

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// skillPoll is how often a listener asks whether it is time to look again.
	skillPoll = 2 * time.Second
	// lookShare is what part of the time may go into looking for changes: 0.4 %.
	lookShare = 250
	// maxWatched bounds the directories of which the system is asked to tell.
	maxWatched = 10_000
)

// pauseAfter is how long a directory is left alone after a look that took so long. Small
// directories are looked at so often that nobody needs to tell of their changes, whatever
// their file system.
func pauseAfter(cost time.Duration) time.Duration {
	return min(max(skillPoll, lookShare*cost), skillFresh)
}

// skillWatch says when a directory of skills is to be looked at again. In large ones,
// where looks are rare, the system is asked to tell of changes: what it tells only makes
// the next look come sooner, so that nothing is lost where it tells nothing, as of network
// file systems. It belongs to those who listen: the last one that leaves closes it.
type skillWatch struct {
	root string
	open func() (dirWatch, error)

	mu        sync.Mutex // guards the fields below
	listeners int
	told      dirWatch // its channels are nil while nobody tells
	refused   bool     // the system does not tell
	watched   map[string]bool
	self      os.FileInfo // the directory itself
	dirty     bool        // something has changed, or may have
	looking   bool        // somebody does
}

// dirWatch tells of changes in directories, as fsnotify.Watcher does.
type dirWatch struct {
	add, remove func(dir string) error
	close       func() error
	events      <-chan fsnotify.Event
	errors      <-chan error
}

// openDirWatch asks the system, where it tells of directories without a file open for each
// of their files.
func openDirWatch() (dirWatch, error) {
	if runtime.GOOS != "linux" {
		return dirWatch{}, errors.ErrUnsupported
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return dirWatch{}, err
	}
	return dirWatch{w.Add, w.Remove, w.Close, w.Events, w.Errors}, nil
}

func (w *skillWatch) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners++
}

func (w *skillWatch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners--; w.listeners == 0 {
		w.stop()
		w.refused = false
	}
}

// stop is called with mu held.
func (w *skillWatch) stop() {
	if w.told.close != nil {
		_ = w.told.close() // there is nothing that could be lost
	}
	w.told, w.watched = dirWatch{}, nil
}

// channels are what listeners wait for beside the time: nil ones where nobody tells.
func (w *skillWatch) channels() (<-chan fsnotify.Event, <-chan error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told.events, w.told.errors
}

// note takes an event. Hidden files have no part in skills, but for what Kubernetes swaps.
func (w *skillWatch) note(e fsnotify.Event) {
	name := filepath.Base(e.Name)
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "..") {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = true
}

// lose notes that events were lost.
func (w *skillWatch) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = true
}

// due reports whether it is time to look, so long after the last look, which took cost.
// It is said to one of several that ask, who has to say when they have looked.
func (w *skillWatch) due(since, cost time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told.events != nil && !w.dirty {
		info, err := os.Stat(w.root) // another one may have taken its place
		w.dirty = err != nil || w.self == nil || !os.SameFile(info, w.self)
	}
	if w.looking || since < pauseAfter(cost) && !(w.dirty && since >= max(skillPoll/2, 10*cost)) {
		return false
	}
	w.dirty, w.looking = false, true
	return true
}

func (w *skillWatch) looked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = false
}

// follow has the system tell of these directories, if looks that cost so much are rare.
func (w *skillWatch) follow(dirs []string, cost time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listeners == 0 || w.refused {
		return
	}
	if w.told.events == nil {
		if pauseAfter(cost) <= 2*skillPoll {
			return
		}
		var err error
		if w.told, err = w.open(); err != nil {
			w.refused = true
			return
		}
	}
	w.self, _ = os.Stat(w.root)
	now := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		if now[dir] {
			continue
		}
		now[dir] = true
		if w.watched[dir] {
			continue
		}
		w.dirty = true // what happened before is told by nobody
		if err := w.told.add(filepath.Join(w.root, filepath.FromSlash(dir))); err != nil && !errors.Is(err, fs.ErrNotExist) || len(now) > maxWatched {
			w.stop()
			w.refused = true
			return
		}
	}
	for dir := range w.watched {
		if !now[dir] {
			_ = w.told.remove(filepath.Join(w.root, filepath.FromSlash(dir))) // it may be gone, and its watch with it
		}
	}
	w.watched = now
}

package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
	"time"
)

// lookAtFile is how often the configuration file is read. It is the content that is
// compared, of the file and of those that its references name: that is right whatever
// replaces a file (an editor, the swapped links of a Kubernetes ConfigMap or Secret) and
// on every file system, and takes some microseconds. Of files of descriptions, beyond
// the first megabyte of them, it is sizes and times.
const lookAtFile = 2 * time.Second

// configFile is the file that the configuration comes from.
type configFile struct {
	path string

	mu    sync.Mutex // guards files
	files []seen     // as they were when the configuration was loaded last
}

// load reads the file.
func (f *configFile) load(holds *Config) (loaded, error) {
	l, err := load(f.path, holds)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = l.files
	return l, err
}

// look returns what is in the files now, and whether it is what was loaded last.
func (f *configFile) look() (now [][sha256.Size]byte, same bool) {
	f.mu.Lock()
	files := f.files
	f.mu.Unlock()
	same = true
	for _, was := range files {
		is := was.again()
		now = append(now, is.content)
		same = same && is == was
	}
	return now, same
}

// watchFile reloads whenever the file has changed and is the same for one look, so that
// none is taken that is being written. It ends with ctx.
func (g *Gateway) watchFile(ctx context.Context) error {
	ticker := time.NewTicker(g.lookEvery)
	defer ticker.Stop()
	var last [][sha256.Size]byte
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now, same := g.file.look()
		if !same && slices.Equal(now, last) {
			if err := g.Reload(); errors.Is(err, ErrNotRunning) {
				return nil
			}
		}
		last = now
	}
}

package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
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

	mu    sync.Mutex        // guards the fields below
	files []strictyaml.Seen // as they were when the configuration was loaded last
	last  []strictyaml.Seen // as they were at the last look
}

// load reads the file.
func (f *configFile) load(holds *Config) (loaded, error) {
	l, err := load(f.path, holds)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = l.files
	return l, err
}

// changed looks at the files. It reports whether they are others than those that were
// loaded last, and the same as at the last look: none is taken that is being written.
func (f *configFile) changed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make([]strictyaml.Seen, len(f.files))
	for i, was := range f.files {
		now[i] = was.Again()
	}
	settled := slices.Equal(now, f.last)
	f.last = now
	return settled && !slices.Equal(now, f.files)
}

// watchFile reloads whenever the file has changed. It ends with ctx.
func (g *Gateway) watchFile(ctx context.Context) error {
	ticker := time.NewTicker(g.lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if g.file.changed() && errors.Is(g.Reload(), ErrNotRunning) {
			return nil
		}
	}
}

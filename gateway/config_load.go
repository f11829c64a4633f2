package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// maxConfigBytes bounds the configuration file.
const maxConfigBytes = 1 << 20

// lookAtFile is how often the configuration file is read. Contents are compared, of the
// file and of those that it refers to: that takes microseconds, and is right on every file
// system and whatever replaces a file (an editor, the swapped links of a Kubernetes
// ConfigMap). Beyond the first megabyte, files of descriptions are compared by size and time.
const lookAtFile = 2 * time.Second

// Problem is one thing that is wrong, or as a warning questionable, in a configuration.
type Problem = strictyaml.Problem

// ConfigError is everything that is wrong with a configuration, sorted by place.
type ConfigError = strictyaml.Error

// LoadConfig reads a configuration file. Paths in it that are not absolute begin at
// its directory. The error is a *ConfigError with everything that is wrong; warnings
// come in either case.
func LoadConfig(file string) (cfg Config, warnings []Problem, err error) {
	l, err := load(file, nil)
	return l.cfg, l.warnings, err
}

// loaded is what came of reading a configuration file.
type loaded struct {
	cfg      Config
	warnings []Problem
	files    []strictyaml.Seen // the file, those that references in it name, and the directory of descriptions
	revision string            // of the file: the first digits of its SHA-256
}

// load is LoadConfig. With the configuration that holds, it is also an error to change
// what cannot be changed without a restart.
func load(file string, holds *Config) (loaded, error) {
	data, _, this, err := strictyaml.SeeFile(file, maxConfigBytes)
	if err != nil {
		return loaded{files: []strictyaml.Seen{this}}, &ConfigError{Problems: []Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
	}
	l, err := parseConfig(file, data, holds)
	l.files = append(l.files, this)
	sum := sha256.Sum256(data)
	l.revision = hex.EncodeToString(sum[:6])
	return l, err
}

// ParseConfig is LoadConfig for a text that is already there. file names it in
// problems, and its directory is where relative paths begin; it need not exist.
func ParseConfig(file string, data []byte) (cfg Config, warnings []Problem, err error) {
	l, err := parseConfig(file, data, nil)
	return l.cfg, l.warnings, err
}

// Locate finds the lines of a file, which LoadConfig has read, that later errors are about.
// Each of them begins with the path of a key.
func Locate(file string, found []error) ([]Problem, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cfg Config
	return decodeConfig(file, data, filepath.Dir(file), &cfg).Locate(errors.Join(found...)), nil
}

func parseConfig(file string, data []byte, holds *Config) (l loaded, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return l, &ConfigError{Problems: []Problem{{File: file, Message: "its directory is not known: " + err.Error()}}}
	}
	var cfg Config
	d := decodeConfig(file, data, dir, &cfg)
	problems := d.Problems()
	l.warnings, l.files = d.Warnings(), d.Files()
	if len(problems) == 0 && holds != nil {
		problems = d.Locate(cfg.withDefaults().needsRestart(*holds))
	}
	if len(problems) > 0 {
		return l, &ConfigError{Problems: problems}
	}
	cfg.resolvePaths(dir)
	l.cfg = cfg
	if cfg.Disclosure.Descriptions != "" {
		l.files = append(l.files, strictyaml.SeeDirectory(cfg.Disclosure.Descriptions))
	}
	return l, nil
}

func decodeConfig(file string, data []byte, dir string, cfg *Config) *strictyaml.Document {
	d := strictyaml.Decode(strictyaml.Source{
		File: file, Data: data, Dir: dir, Env: os.LookupEnv,
		Least: "upstreams", Example: "listen: " + defaultListen,
	}, cfg)
	d.Check(cfg.Validate())
	d.Doubt(cfg.doubts())
	return d
}

// needsRestart reports what differs from the configuration that holds and only changes with
// a restart, each with its key in front. Both have defaults.
func (c Config) needsRestart(holds Config) error {
	if holds.PublicURL == loopbackURL(holds.Listen) && c.PublicURL == loopbackURL(c.Listen) {
		c.PublicURL = holds.PublicURL // that follows from listen, which says it
	}
	c.Telemetry.Log.Level = holds.Telemetry.Log.Level // changes while the gateway runs
	var errs []error
	for _, key := range []struct {
		name      string
		now, then any
	}{
		{"listen", holds.Listen, c.Listen},
		{"public_url", holds.PublicURL, c.PublicURL},
		{"sessions", withoutUser(holds.Sessions), withoutUser(c.Sessions)},
		{"replicas", holds.Replicas, c.Replicas},
		{"http", holds.HTTP, c.HTTP},
		{"connections", holds.Connections, c.Connections},
		{"admin", holds.Admin, c.Admin},
		{"telemetry", holds.Telemetry, c.Telemetry},
	} {
		if !reflect.DeepEqual(key.now, key.then) {
			errs = append(errs, fmt.Errorf("%s: changes with a restart only: restart the gateway, or take the change back to reload the rest", key.name))
		}
	}
	return errors.Join(errs...)
}

// withoutUser is the section without what a reload takes of it.
func withoutUser(c session.Config) session.Config {
	c.Redis = c.Redis.WithoutUser()
	return c
}

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

// changed looks at the files. It reports whether they differ from those that were loaded
// last and are the same as at the last look: a file that is being written has to wait.
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

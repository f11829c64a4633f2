package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// maxConfigBytes bounds the configuration file, in bytes.
const maxConfigBytes = 1 << 20

// lookAtFile is the interval at which the configuration file is read. The contents of the file
// and of the files it refers to are compared. That takes microseconds, and works on every file
// system, however a file is replaced (by an editor, or by the swapped links of a Kubernetes
// ConfigMap). Beyond the first megabyte, description files are compared by size and time.
const lookAtFile = 2 * time.Second

// Problem is one error, or as a warning one doubtful point, in a configuration.
type Problem = strictyaml.Problem

// ConfigError is everything that is wrong with a configuration, sorted by position.
type ConfigError = strictyaml.Error

// LoadConfig reads a configuration file. Relative paths in it start at its directory. The
// error is a *ConfigError with everything that is wrong. Warnings are returned in either case.
func LoadConfig(file string) (cfg Config, warnings []Problem, err error) {
	l, err := load(file, nil)
	return l.cfg, l.warnings, err
}

// loaded is the result of reading a configuration file.
type loaded struct {
	cfg      Config
	warnings []Problem
	files    []strictyaml.Seen // the file, those that references in it name, and the directory of descriptions
	revision string            // the first digits of the file's SHA-256
	places   map[string]string // of the rules of policy by their names, file:line
}

// load is LoadConfig. If holds, the current configuration, is given, a change that needs a
// restart is an error, too.
func load(file string, holds *Config) (loaded, error) {
	data, _, this, err := strictyaml.SeeFile(file, maxConfigBytes)
	if err != nil {
		return loaded{files: []strictyaml.Seen{this}}, &ConfigError{Problems: []Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
	}
	l, err := parseConfig(file, data, holds)
	l.files = append(l.files, this)
	l.revision = revisionOf(data)
	return l, err
}

// revisionOf is the revision of a configuration file.
func revisionOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// ParseConfig is LoadConfig for a text in memory. file names it in problems, and relative
// paths start at its directory; the file need not exist.
func ParseConfig(file string, data []byte) (cfg Config, warnings []Problem, err error) {
	l, err := parseConfig(file, data, nil)
	return l.cfg, l.warnings, err
}

// Locate finds the lines that errors are about, in a file that LoadConfig has read. Each error
// must begin with the path of a key.
func Locate(file string, found []error) ([]Problem, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var cfg Config
	return decodeConfig(strictyaml.Source{File: file, Data: data, Dir: filepath.Dir(file), Env: os.LookupEnv}, &cfg).Locate(errors.Join(found...)), nil
}

func parseConfig(file string, data []byte, holds *Config) (l loaded, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return l, &ConfigError{Problems: []Problem{{File: file, Message: "its directory is not known: " + err.Error()}}}
	}
	var cfg Config
	d := decodeConfig(strictyaml.Source{File: file, Data: data, Dir: dir, Env: os.LookupEnv}, &cfg)
	problems := d.Problems()
	l.warnings, l.files = d.Warnings(), d.Files()
	if len(problems) == 0 && holds != nil {
		problems = d.Locate(cfg.withDefaults().needsRestart(*holds))
	}
	if len(problems) > 0 {
		return l, &ConfigError{Problems: problems}
	}
	cfg.resolvePaths(dir)
	l.cfg, l.places = cfg, rulePlaces(file, cfg, d)
	if cfg.Disclosure.Descriptions != "" {
		l.files = append(l.files, strictyaml.SeeDirectory(cfg.Disclosure.Descriptions))
	}
	if pins(cfg) {
		_, _, lock, _ := strictyaml.SeeFile(cfg.Pinning.File, pin.MaxBytes)
		l.files = append(l.files, lock)
	}
	return l, nil
}

// rulePlaces returns the places of the rules of policy by their names.
func rulePlaces(file string, cfg Config, d *strictyaml.Document) map[string]string {
	places := make(map[string]string, len(cfg.Policy.Rules))
	for i, r := range cfg.Policy.Rules {
		places[r.Name] = fmt.Sprintf("%s:%d", file, d.Line(fmt.Sprintf("policy.rules[%d]", i)))
	}
	return places
}

// parseDraft reads the text of somebody who may know neither the environment nor the files of
// this machine. Of lines with references, it does not say what is wrong, except where calls are
// decided by them.
func parseDraft(file string, data []byte) (l loaded, err error) {
	d := decodeConfig(strictyaml.Source{File: file, Data: data, Blind: true}, &l.cfg)
	lines := bytes.Split(data, []byte("\n"))
	problems := slices.DeleteFunc(d.Problems(), func(p Problem) bool {
		decides := p.Path == "" || strings.HasPrefix(p.Path, "policy") || strings.HasPrefix(p.Path, "views") || strings.HasSuffix(p.Path, "enabled") || strings.HasSuffix(p.Path, "mode")
		return !decides && p.Line > 0 && p.Line <= len(lines) && bytes.Contains(lines[p.Line-1], []byte("${"))
	})
	if len(data) > maxConfigBytes {
		problems = append(problems, Problem{File: file, Message: fmt.Sprintf("has more than %d bytes", maxConfigBytes)})
	}
	if len(problems) > 0 {
		return loaded{}, &ConfigError{Problems: problems}
	}
	l.places = rulePlaces(file, l.cfg, d)
	return l, nil
}

func decodeConfig(src strictyaml.Source, cfg *Config) *strictyaml.Document {
	src.Least, src.Example = "upstreams", "listen: "+defaultListen
	d := strictyaml.Decode(src, cfg)
	d.Check(cfg.Validate())
	d.Doubt(cfg.doubts())
	return d
}

// needsRestart returns the changes against the current configuration that only a restart can
// apply, each prefixed with its key. Both configurations have defaults.
func (c Config) needsRestart(holds Config) error {
	if holds.PublicURL == loopbackURL(holds.Listen) && c.PublicURL == loopbackURL(c.Listen) {
		c.PublicURL = holds.PublicURL // follows from listen, which is reported
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
		{"admin", withoutOperators(holds.Admin), withoutOperators(c.Admin)},
		{"telemetry", holds.Telemetry, c.Telemetry},
	} {
		if !reflect.DeepEqual(key.now, key.then) {
			errs = append(errs, fmt.Errorf("%s: changes with a restart only: restart the gateway, or take the change back to reload the rest", key.name))
		}
	}
	return errors.Join(errs...)
}

// withoutUser returns the section without the parts that a reload can change.
func withoutUser(c session.Config) session.Config {
	c.Redis = c.Redis.WithoutUser()
	return c
}

// withoutOperators returns the section without the parts that a reload can change: only whether
// there is an API cannot change.
func withoutOperators(c Admin) Admin {
	if !c.API.IsZero() {
		c.API = admin.Config{Loopback: "some"}
	}
	return c
}

// configFile is the file of the configuration.
type configFile struct {
	path string

	mu    sync.Mutex        // guards the fields below
	files []strictyaml.Seen // at the last load
	last  []strictyaml.Seen // at the last look
}

// load reads the file.
func (f *configFile) load(holds *Config) (loaded, error) {
	l, err := load(f.path, holds)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = l.files
	return l, err
}

// changed looks at the files. It reports whether they differ from those of the last load and
// are the same as at the last look: a file that is being written has to wait.
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

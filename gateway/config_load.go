package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/console"
	"github.com/gatehouse-mcp/gatehouse/gateway/keyfile"
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
	text     []byte            // nil if the file cannot be read
}

// load is LoadConfig. If holds, the current configuration, is given, a change that needs a
// restart is an error, too.
func load(file string, holds *Config) (loaded, error) {
	data, _, this, err := strictyaml.SeeFile(file, maxConfigBytes)
	if err != nil {
		return loaded{files: []strictyaml.Seen{this}}, &ConfigError{Problems: []Problem{{File: file, Message: "cannot be read: " + err.Error()}}}
	}
	l, err := parseConfig(file, data, holds, os.LookupEnv)
	l.files = append(l.files, this)
	l.text, l.revision = data, revisionOf(data)
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
	l, err := parseConfig(file, data, nil, os.LookupEnv)
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

func parseConfig(file string, data []byte, holds *Config, env func(string) (string, bool)) (l loaded, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return l, &ConfigError{Problems: []Problem{{File: file, Message: "its directory is not known: " + err.Error()}}}
	}
	var cfg Config
	d := decodeConfig(strictyaml.Source{File: file, Data: data, Dir: dir, Env: env}, &cfg)
	problems := d.Problems()
	l.warnings, l.files = d.Warnings(), d.Files()
	if len(problems) == 0 && holds != nil {
		problems = d.Locate(cfg.withDefaults().needsRestart(*holds))
	}
	if len(problems) > 0 {
		return l, &ConfigError{Problems: problems}
	}
	cfg.resolvePaths(dir)
	if err := l.readKeys(&cfg, holds != nil && len(holds.Auth.Keys.Filed) > 0); err != nil {
		return l, err
	}
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

// readKeys reads the file of API keys, if one is configured. Before the first key there need not be
// any, but one that vanishes while the gateway runs, and had keys, is a mistake.
func (l *loaded) readKeys(cfg *Config, had bool) error {
	if cfg.Auth.Keys.File == "" {
		return nil
	}
	keys := keyfile.Load(cfg.Auth.Keys.File, cfg.Auth.Keys, cfg.viewNames(), !had)
	cfg.Auth.Keys.Filed = keys.Keys
	l.files, l.warnings = append(l.files, keys.Seen), append(l.warnings, keys.Warnings...)
	if len(keys.Problems) > 0 {
		return &ConfigError{Problems: keys.Problems}
	}
	return nil
}

// rulePlaces returns the places of the rules of policy by their names.
func rulePlaces(file string, cfg Config, d *strictyaml.Document) map[string]string {
	places := make(map[string]string, len(cfg.Policy.Rules))
	for i, r := range cfg.Policy.Rules {
		places[r.Name] = fmt.Sprintf("%s:%d", file, d.Line(fmt.Sprintf("policy.rules[%d]", i)))
	}
	return places
}

// parseBlindly reads the text of somebody who may know neither the environment nor the files of
// this machine, only what known says of variables; nil for nothing. Of lines with references, it
// does not say what is wrong, except where calls are decided by them.
func parseBlindly(file string, data []byte, known func(string) (string, bool)) (l loaded, err error) {
	d := decodeConfig(strictyaml.Source{File: file, Data: data, Env: known, Blind: true}, &l.cfg)
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
	var found findings
	for _, key := range []struct {
		name      string
		now, then any
	}{
		{"listen", holds.Listen, c.Listen},
		{"public_url", holds.PublicURL, c.PublicURL},
		{"sessions", withoutUser(holds.Sessions), withoutUser(c.Sessions)},
		{"vault", holds.Vault, c.Vault},
		{"replicas", holds.Replicas, c.Replicas},
		{"http", holds.HTTP, c.HTTP},
		{"connections", holds.Connections, c.Connections},
		{"admin", withoutOperators(holds.Admin), withoutOperators(c.Admin)},
		{"telemetry", holds.Telemetry, c.Telemetry},
	} {
		if !reflect.DeepEqual(key.now, key.then) {
			found.add(key.name, errors.New("changes with a restart only: restart the gateway, or take the change back to reload the rest"))
		}
	}
	return errors.Join(found...)
}

// withoutUser returns the section without the parts that a reload can change.
func withoutUser(c session.Config) session.Config {
	c.Redis = c.Redis.WithoutUser()
	return c
}

// withoutOperators returns the section without the parts that a reload can change: only whether
// there are an API and a console cannot change.
func withoutOperators(c console.Section) console.Section {
	c.Console.Save = false
	if !c.API.IsZero() {
		c.API = admin.Config{Loopback: "some"}
	}
	if !c.Console.IsZero() {
		c.Console = console.Config{Loopback: "some"}
	}
	c.Rules = nil
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

// still reports as an error that the file has another revision.
func (f *configFile) still(revision string) error {
	data, _, _, err := strictyaml.SeeFile(f.path, maxConfigBytes)
	if err == nil && revisionOf(data) != revision {
		err = admin.ErrFileChanged
	}
	return err
}

// saved notes that the file has been written, and what references in it name.
func (f *configFile) saved(l loaded) {
	_, _, this, _ := strictyaml.SeeFile(f.path, maxConfigBytes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = append(l.files, this)
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

// doubts returns what is allowed but probably not meant.
func (c Config) doubts() error {
	doubts := slices.Concat(c.policyDoubts(), viewDoubts(c), auditDoubts(c), c.exchangeDoubts(), c.memoryDoubts(debug.SetMemoryLimit(-1)))
	if n := len(c.Naming.Instructions); n > clients.ReadByAll {
		doubts.add("naming", fmt.Errorf("instructions: of all instructions, some clients read only 2 KB: with these %d bytes, they read nothing of what servers say (docs/clients.md)", n))
	}
	u, err := url.Parse(c.PublicURL)
	if err == nil && c.PublicURL != "" && !isLoopback(u.Hostname()) && !c.Auth.Identifies() {
		doubts.add("public_url", fmt.Errorf("without authentication, everyone whom a proxy lets through from %s can use every upstream", u.Hostname()))
	}
	doubts.add("auth.keys", apikey.Doubts("entries", c.Auth.Keys.Entries, time.Now(), keyfile.Soon))
	return errors.Join(doubts...)
}

// exchangeDoubts reports upstreams whose tokens are exchanged where those of auth.server are not known.
func (c Config) exchangeDoubts() (doubts findings) {
	for i, u := range c.Upstreams {
		if c.Auth.Server.Enabled && enabled(u) && u.Auth.Type == outbound.TypeTokenExchange {
			doubts.add(upstreamPath(i, u), errors.New("auth: token_exchange works for callers with a token of the issuer itself alone: it does not know the tokens of auth.server"))
		}
	}
	return doubts
}

// auditDoubts returns what is probably not meant.
func auditDoubts(c Config) (doubts findings) {
	for i, r := range c.Policy.Rules {
		if len(r.Record.Arguments) > 0 && c.Audit.IsZero() && !c.Admin.Operated() {
			doubts.add("policy", fmt.Errorf("rules[%d]: record: nothing is recorded: there is no section audit", i))
		}
	}
	return doubts
}

// policyDoubts returns what is probably not meant in policy, limits and hooks.
func (c Config) policyDoubts() (doubts findings) {
	servers := c.upstreamNames()
	doubts.add("policy", c.Policy.Doubts(servers)...)
	doubts.add("limits", c.Limits.Doubts(servers)...)
	doubts.add("hooks", c.Hooks.Doubts(servers)...)
	return doubts
}

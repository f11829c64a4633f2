package audit

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Values of Config.OnFull.
const (
	OnFullDrop  = "drop"
	OnFullBlock = "block"
)

// Types of sinks.
const (
	TypeFile   = "file"
	TypeStdout = "stdout"
)

// Values of Sink.Sync.
const (
	SyncAlways = "always"
	SyncSecond = "second"
	SyncNever  = "never"
)

const (
	defaultQueue = 10_000
	mostQueue    = 1_000_000
	leastBytes   = 64 << 10
)

// Config is the section "audit". Its zero value records nothing.
type Config struct {
	// Sinks are where records go; each gets all of them, in a chain of its own. At least one is
	// required.
	Sinks []Sink `yaml:"sinks"`
	// OnFull says what happens when a sink is slower than the calls and its queue is full:
	// "drop", the default: records are lost, which is counted and recorded; or "block": calls
	// wait before they run.
	OnFull string `yaml:"on_full"`
	// Queue is how many records may wait for each sink. Default 10000.
	Queue int `yaml:"queue"`
	// Key is a secret of at least 32 random bytes. It signs the anchors of the chains, so that
	// nobody without it can change a chain so that it still fits together, and keys the digests
	// of arguments. Default none.
	Key mcp.Secret `yaml:"key"`
}

// Sink is one place where records go.
type Sink struct {
	// Type is file or stdout. Required.
	Type string `yaml:"type"`
	// Name identifies the sink in metrics and in the names of chains. Default: the type.
	Name string `yaml:"name"`
	// Path is the file, for the type file. Required there. Its directory must exist.
	Path string `yaml:"path"`
	// MaxBytes is the size at which a file is renamed and a new one begun. Default 100MiB.
	MaxBytes int64 `yaml:"max_bytes"`
	// MaxAge is likewise the age. Default: files are not renamed for their age.
	MaxAge time.Duration `yaml:"max_age"`
	// Keep is how many renamed files are kept; the oldest are deleted. Default: all.
	Keep int `yaml:"keep" zero:"all are kept, the default"`
	// Sync says when the disk has to have what was written: "always", after each write;
	// "second", the default, within about a second; or "never", when the system does it.
	Sync string `yaml:"sync"`
}

// sinkName matches names that are safe in labels and chains.
var sinkName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// IsZero reports whether nothing is recorded.
func (c Config) IsZero() bool {
	return c.Sinks == nil && c.OnFull == "" && c.Queue == 0 && c.Key == ""
}

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	if c.IsZero() {
		return nil
	}
	var errs []error
	if len(c.Sinks) == 0 {
		errs = append(errs, errors.New("sinks: at least one is needed, such as {type: file, path: audit.jsonl}"))
	}
	switch c.OnFull {
	case "", OnFullDrop, OnFullBlock:
	default:
		errs = append(errs, fmt.Errorf("on_full: %q: want drop or block", c.OnFull))
	}
	if c.Queue < 0 || c.Queue > mostQueue {
		errs = append(errs, fmt.Errorf("queue: %d: want 1 to %d", c.Queue, mostQueue))
	}
	if c.Key != "" {
		if err := seal.Check([]byte(string(c.Key))); err != nil {
			errs = append(errs, fmt.Errorf("key: %w", err))
		}
	}
	names, paths := make(map[string]int), make(map[string]int)
	for i, s := range c.Sinks {
		add := func(err error) { errs = append(errs, fmt.Errorf("sinks[%d]: %w", i, err)) }
		for _, err := range s.problems() {
			add(err)
		}
		if first, taken := names[s.label()]; taken && s.Type != "" {
			add(fmt.Errorf("name: sinks[%d] is called %q already: give each a name of its own", first, s.label()))
		}
		names[s.label()] = i
		if first, taken := paths[s.Path]; taken && s.Path != "" {
			add(fmt.Errorf("path: sinks[%d] writes to it already", first))
		}
		paths[s.Path] = i
	}
	return errors.Join(errs...)
}

func (s Sink) problems() (errs []error) {
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch s.Type {
	case TypeFile:
		if s.Path == "" {
			add("path: is needed: the file, such as /var/log/gatehouse/audit.jsonl")
		}
	case TypeStdout:
		if s.Path != "" || s.MaxBytes != 0 || s.MaxAge != 0 || s.Keep != 0 || s.Sync != "" {
			add("type: path, max_bytes, max_age, keep and sync are for the type file")
		}
	case "":
		add("type: is needed: file or stdout")
	default:
		add("type: %q: want file or stdout", s.Type)
	}
	if s.Name != "" && !sinkName.MatchString(s.Name) {
		add("name: %q: want at most 32 letters a-z, digits and -", s.Name)
	}
	if s.MaxBytes != 0 && s.MaxBytes < leastBytes {
		add("max_bytes: %d: want at least 64KiB", s.MaxBytes)
	}
	if s.MaxAge != 0 && s.MaxAge < time.Minute {
		add("max_age: %s: want at least 1m", s.MaxAge)
	}
	if s.Keep < 0 {
		add("keep: %d is negative", s.Keep)
	}
	switch s.Sync {
	case "", SyncAlways, SyncSecond, SyncNever:
	default:
		add("sync: %q: want always, second or never", s.Sync)
	}
	return errs
}

// label is the name of the sink in metrics and chains.
func (s Sink) label() string { return cmp.Or(s.Name, s.Type) }

// WithDefaults fills in the defaults.
func (c Config) WithDefaults() Config {
	if c.IsZero() {
		return c
	}
	c.OnFull = cmp.Or(c.OnFull, OnFullDrop)
	c.Queue = cmp.Or(c.Queue, defaultQueue)
	sinks := make([]Sink, len(c.Sinks))
	for i, s := range c.Sinks {
		s.Name = s.label()
		if s.Type == TypeFile {
			s.MaxBytes, s.Sync = cmp.Or(s.MaxBytes, 100<<20), cmp.Or(s.Sync, SyncSecond)
		}
		sinks[i] = s
	}
	c.Sinks = sinks
	return c
}

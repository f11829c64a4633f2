package audit

import (
	"cmp"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Values of Config.OnFull.
const (
	OnFullDrop  = "drop"
	OnFullBlock = "block"
)

const (
	defaultQueue = 10_000
	mostQueue    = 1_000_000
)

// Config is the section "audit". Its zero value records nothing.
type Config struct {
	// Sinks are where records go; each gets all of them, in a chain of its own. At least one is
	// required.
	Sinks []Sink `yaml:"sinks"`
	// OnFull says what happens when a sink is slower than the calls and its queue is full. "drop", the
	// default: records are lost, which is counted and recorded. "block": calls wait before they run.
	OnFull string `yaml:"on_full"`
	// Queue is how many records may wait for each sink. Default 10000.
	Queue int `yaml:"queue"`
	// Key is a secret of at least 32 random bytes, not that of sessions.key. It signs the anchors of the
	// chains, so that a chain cannot be changed without it and still fit together, and keys the digests of
	// arguments. Default none.
	Key mcp.Secret `yaml:"key"`
}

// IsZero reports whether nothing is recorded.
func (c Config) IsZero() bool {
	return c.Sinks == nil && c.OnFull == "" && c.Queue == 0 && c.Key == ""
}

// Validate reports everything that is wrong, each problem with the path of its key in front.
func (c Config) Validate() error {
	if c.IsZero() {
		return nil
	}
	var found problems.List
	found.When(len(c.Sinks) == 0, "sinks: at least one is needed, such as {type: file, path: audit.jsonl}")
	switch c.OnFull {
	case "", OnFullDrop, OnFullBlock:
	default:
		found.Add("on_full: %q: want drop or block", c.OnFull)
	}
	found.When(c.Queue < 0 || c.Queue > mostQueue, "queue: %d: want 1 to %d", c.Queue, mostQueue)
	if c.Key != "" {
		found.At("key", seal.Check([]byte(string(c.Key))))
	}
	names, paths := make(map[string]int), make(map[string]int)
	for i, s := range c.Sinks {
		path := fmt.Sprintf("sinks[%d]", i)
		found.At(path, s.problems()...)
		if first, taken := names[s.label()]; taken && s.Type != "" {
			found.Add("%s: name: sinks[%d] is called %q already: give each a name of its own", path, first, s.label())
		}
		names[s.label()] = i
		if first, taken := paths[s.Path]; taken && s.Path != "" {
			found.Add("%s: path: sinks[%d] writes to it already", path, first)
		}
		paths[s.Path] = i
	}
	return found.Err()
}

// WithDefaults fills in the defaults.
func (c Config) WithDefaults() Config {
	if c.IsZero() {
		return c
	}
	c.OnFull = cmp.Or(c.OnFull, OnFullDrop)
	c.Queue = cmp.Or(c.Queue, defaultQueue)
	sinks := make([]Sink, len(c.Sinks))
	for i, s := range c.Sinks {
		sinks[i] = s.withDefaults()
	}
	c.Sinks = sinks
	return c
}

package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Bounds of a replay, so that no file makes it grow.
const (
	mostRows     = 10_000 // of the report
	mostProblems = 100
	mostPending  = 100_000 // calls with further rounds
)

// Config is the input of a replay.
type Config struct {
	Draft Rules
	// Current are the rules in force, nil if they are not known.
	Current *Rules
	// SameServers says that the draft has the servers and names of the current configuration,
	// SameSignIn that callers sign in as there. Both are false without Current.
	SameServers, SameSignIn bool
	// Key is the one of the digests of arguments, nil for none.
	Key *record.Key
	// NoArguments says that arguments, and digests of them, have been taken out of the records.
	NoArguments bool
	// Since and Until bound the time of calls; Until is not included. Zero for no bound.
	Since, Until time.Time
}

// Replay decides on recorded calls again. It is for one goroutine.
type Replay struct {
	cfg     Config
	draft   *side
	current *side // nil if it is not known

	pending map[string]bool // ids of calls that have more rounds
	rows    map[rowKey]*Row
	report  Report
}

// New compiles the rules.
func New(cfg Config) (r *Replay, err error) {
	r = &Replay{cfg: cfg, pending: make(map[string]bool), rows: make(map[rowKey]*Row)}
	if r.draft, err = newSide(cfg.Draft); err != nil {
		return nil, err
	}
	if cfg.Current != nil {
		r.current, err = newSide(*cfg.Current)
	}
	return r, err
}

// Read replays a file of records, oldest first. A line that is no record is a problem of the
// report. The error is that of ctx, or of reading.
func (r *Replay) Read(ctx context.Context, file string, from io.Reader) error {
	err := record.Lines(from, func(number int, line []byte) {
		if ctx.Err() != nil {
			return
		}
		if err := r.Line(ctx, line); err != nil {
			r.Problem(Problem{File: file, Line: number, Message: err.Error()})
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Line replays a line with a record. The error says why it is none.
func (r *Replay) Line(ctx context.Context, line []byte) error {
	var c record.Record
	if err := json.Unmarshal(line, &c); err != nil {
		return fmt.Errorf("no record: %w", err)
	}
	if c.Kind == "" || c.Time.IsZero() {
		return fmt.Errorf("no record: it has no kind, or no time")
	}
	r.Record(ctx, &c)
	return nil
}

// Record replays a record.
func (r *Replay) Record(ctx context.Context, c *record.Record) {
	if c.Kind == record.KindCall {
		r.call(ctx, c)
	}
}

// Problem adds a problem to the report.
func (r *Replay) Problem(p Problem) {
	if len(r.report.Problems) >= mostProblems {
		r.report.MoreProblems++
		return
	}
	r.report.Problems = append(r.report.Problems, p)
}

// call replays a call, once for all of its rounds.
func (r *Replay) call(ctx context.Context, c *record.Record) {
	if !r.cfg.Since.IsZero() && c.Time.Before(r.cfg.Since) || !r.cfg.Until.IsZero() && !c.Time.Before(r.cfg.Until) {
		return
	}
	if r.again(c) {
		return
	}
	if !decidedOn(c) {
		r.report.Others++
		return
	}
	r.report.Calls++
	if r.report.First.IsZero() || c.Time.Before(r.report.First) {
		r.report.First = c.Time
	}
	if c.Time.After(r.report.Last) {
		r.report.Last = c.Time
	}
	was := Side{Decision: c.Decision, Rule: c.Rule, At: c.RuleAt}
	now := r.decide(ctx, c)
	if now.untold == "" && now.unchecked {
		r.report.Unchecked++
	}
	r.count(c, was, now)
}

// again reports whether the record is of a later round of a call.
func (r *Replay) again(c *record.Record) bool {
	known := c.ID != "" && r.pending[c.ID]
	switch {
	case c.Outcome != "ask":
		delete(r.pending, c.ID)
	case c.ID != "" && len(r.pending) < mostPending:
		r.pending[c.ID] = true
	}
	return known
}

// decidedOn reports whether policy decides on calls like this one, each on its own.
func decidedOn(c *record.Record) bool {
	switch c.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
	case mcp.MethodResourcesRead:
		if c.Thing == mcp.KindTools { // the rest of a tool's result
			return false
		}
	default:
		return false
	}
	return c.Decision != "" || c.Outcome != "ok" // the gateway's own tools need no decision
}

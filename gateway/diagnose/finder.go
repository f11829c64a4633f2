package diagnose

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

const (
	// findingsHold is the time for which findings are valid: many may ask for them at a time, and
	// each search asks Redis.
	findingsHold = time.Second
	// findingsTime bounds the collection of facts. What does not answer by then counts as unreachable.
	findingsTime = 5 * time.Second
)

// Finder finds problems for operators. It keeps the newest findings.
type Finder struct {
	facts func(context.Context) Facts
	turn  chan struct{} // holds one while facts are collected; guards the fields below
	at    time.Time
	last  []admin.Finding
}

// NewFinder makes a Finder. facts collects the facts for findings.
func NewFinder(facts func(context.Context) Facts) *Finder {
	return &Finder{facts: facts, turn: make(chan struct{}, 1)}
}

// Findings returns the present findings. One caller collects the facts for all that wait. If its ctx ends,
// the next one collects them. The error is that of ctx.
func (f *Finder) Findings(ctx context.Context) ([]admin.Finding, error) {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Since(f.at) < findingsHold {
		return f.last, nil
	}
	collecting, cancel := context.WithTimeout(ctx, findingsTime)
	defer cancel()
	all := Of(f.facts(collecting))
	if ctx.Err() != nil { // to a caller that has left, everything seems unreachable
		return nil, ctx.Err()
	}
	f.last, f.at = all, time.Now()
	return all, nil
}

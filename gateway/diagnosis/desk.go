package diagnosis

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
)

const (
	// findingsHold is for how long findings are good: many may look at them at a time, and Redis is
	// asked for them.
	findingsHold = time.Second
	// findingsTime bounds how long facts are collected. What does not answer by then is away.
	findingsTime = 5 * time.Second
)

// Desk answers operators who ask what is not well. It keeps the findings that were looked for last.
type Desk struct {
	facts func(context.Context) Facts
	turn  chan struct{} // holds one while somebody looks; guards the fields below
	at    time.Time
	last  []admin.Finding
}

// NewDesk makes a Desk. facts collects what findings are about.
func NewDesk(facts func(context.Context) Facts) *Desk {
	return &Desk{facts: facts, turn: make(chan struct{}, 1)}
}

// Findings returns what is not well. One looks for all who ask; when ctx ends, nobody waits any longer,
// and whoever waits behind a looker that has left looks anew. The error is that of ctx.
func (d *Desk) Findings(ctx context.Context) ([]admin.Finding, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if time.Since(d.at) < findingsHold {
		return d.last, nil
	}
	looking, cancel := context.WithTimeout(ctx, findingsTime)
	defer cancel()
	all := Of(d.facts(looking))
	if ctx.Err() != nil { // to whoever has left, everything looks as if it were away
		return nil, ctx.Err()
	}
	d.last, d.at = all, time.Now()
	return all, nil
}

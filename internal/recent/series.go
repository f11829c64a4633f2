package recent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Steps of time, each with its own memory.
const (
	Fine   = 10 * time.Second // of the last ten minutes
	Coarse = time.Minute      // of the last two hours

	fineSteps, coarseSteps = 60, 120
)

// How far back the counters go.
const (
	Longest     = coarseSteps * Coarse
	LongestFine = fineSteps * Fine
)

const (
	// mostUpstreams bounds the servers that are counted. A further one takes the place of one
	// without calls for longer than is kept, or is counted in all only.
	mostUpstreams = 200
	// mostRules bounds the rules that are counted, as policy bounds its own.
	mostRules = 10_000
)

// Series counts what records say. It is safe for concurrent use.
type Series struct {
	started time.Time

	mu        sync.Mutex // guards the fields below; held for a few additions
	all       *line
	upstreams map[string]*line
	rules     map[string]Decided
	ruled     time.Time // since when rules are counted
}

// line has the counters of a server, or of all.
type line struct {
	fine, coarse ring
	last         time.Time // of what was counted
}

func newLine() *line {
	return &line{fine: newRing(Fine, fineSteps), coarse: newRing(Coarse, coarseSteps)}
}

// Decided is how often something decided on a call, and when it did last.
type Decided struct {
	Count int64
	Last  time.Time
}

// NewSeries returns Series that begin at a time.
func NewSeries(now time.Time) *Series {
	return &Series{started: now, ruled: now, all: newLine(), upstreams: make(map[string]*line),
		rules: make(map[string]Decided)}
}

// Put counts a record, which must have a time. It waits for other records alone.
func (s *Series) Put(r *record.Record) {
	event, counts := eventOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Kind == record.KindReload && r.Event == "applied" && slices.Contains(r.Changed, "policy") {
		clear(s.rules)
		s.ruled = r.Time
	}
	if !counts {
		return
	}
	s.all.add(r.Time, event)
	if r.Upstream != "" {
		if one := s.upstream(r.Upstream, r.Time); one != nil {
			one.add(r.Time, event)
		}
	}
	if r.Kind == record.KindCall && r.Decision != "" && r.Decision != "unknown" {
		s.decided(r.Rule, r.Time)
	}
}

func (l *line) add(at time.Time, e event) {
	if at.After(l.last) {
		l.last = at
	}
	for _, ring := range []*ring{&l.fine, &l.coarse} {
		if c := ring.at(at); c != nil {
			c.add(e)
		}
	}
}

// upstream returns the counters of a server, nil if there is no room for one more. The caller
// holds mu.
func (s *Series) upstream(name string, now time.Time) *line {
	if l := s.upstreams[name]; l != nil {
		return l
	}
	if len(s.upstreams) >= mostUpstreams {
		for other, l := range s.upstreams {
			if now.Sub(l.last) > Longest {
				delete(s.upstreams, other)
			}
		}
	}
	if len(s.upstreams) >= mostUpstreams {
		return nil
	}
	l := newLine()
	s.upstreams[name] = l
	return l
}

// decided counts a decision. The caller holds mu.
func (s *Series) decided(rule string, at time.Time) {
	d, known := s.rules[rule]
	if !known && len(s.rules) > mostRules { // one more than that for the default
		return
	}
	d.Count++
	if at.After(d.Last) {
		d.Last = at
	}
	s.rules[rule] = d
}

// Rules returns how often each rule decided on a call, that is, was the one which records name;
// "" stands for the default. since is when counting began: at the start, or when a reload changed
// policy.
func (s *Series) Rules() (rules map[string]Decided, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.rules), s.ruled
}

// Started is when counting began.
func (s *Series) Started() time.Time { return s.started }

// Points returns the counters of a server, "" for all, step by step: those that end after since,
// up to the one in which now is, oldest first. step is Fine or Coarse. The first point may begin
// before counting did.
func (s *Series) Points(upstream string, step time.Duration, since, now time.Time) (points []Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.line(upstream)
	if l == nil {
		l = newLine()
	}
	if since.Before(s.started) {
		since = s.started
	}
	r := l.ring(step)
	for at := r.first(since, now); !at.After(now); at = at.Add(r.step) {
		points = append(points, r.read(at).point(at))
	}
	return points
}

// Total sums up the counters of a server, "" for all: those of the steps that begin before a time,
// from the one in which since is. step is Fine or Coarse.
func (s *Series) Total(upstream string, step time.Duration, since, before time.Time) Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.line(upstream); l != nil {
		return l.ring(step).total(since, before)
	}
	return Point{At: since}
}

// Totals is Total for each server that is counted. Put never waits for all of them.
func (s *Series) Totals(step time.Duration, since, before time.Time) map[string]Point {
	s.mu.Lock()
	names := slices.Collect(maps.Keys(s.upstreams))
	s.mu.Unlock()
	totals := make(map[string]Point, len(names))
	for _, name := range names {
		totals[name] = s.Total(name, step, since, before)
	}
	return totals
}

func (s *Series) line(upstream string) *line {
	if upstream == "" {
		return s.all
	}
	return s.upstreams[upstream]
}

func (l *line) ring(step time.Duration) *ring {
	if step == Fine {
		return &l.fine
	}
	return &l.coarse
}

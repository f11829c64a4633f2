package admin

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// Series counts calls over time, at this replica since its start.
type Series struct {
	Replica string `json:"replica"`
	// Upstream is the server of the series, "" for all.
	Upstream string `json:"upstream,omitempty"`
	// Counting is the time when the replica began to count.
	Counting time.Time `json:"counting"`
	// Step is the length of each point, such as 1m0s. The last one has not ended.
	Step   string         `json:"step"`
	Points []recent.Point `json:"points"` // oldest first
	Total  recent.Point   `json:"total"`
	// Upstreams are the totals of each server with calls, by name; only without Upstream.
	Upstreams []UpstreamTotal `json:"upstreams,omitempty"`
}

// UpstreamTotal counts the calls at a server.
type UpstreamTotal struct {
	Name string `json:"name"`
	recent.Point
}

// Policy has the rules in force, and the number of calls that each decided on at this replica.
type Policy struct {
	Replica string `json:"replica"`
	// Open says that there is no section policy: everything is allowed.
	Open    bool   `json:"open,omitempty"`
	Default string `json:"default"` // deny or allow
	// Counting is the time when counting began: the start, or the last change of policy.
	Counting time.Time `json:"counting"`
	// ByDefault counts the calls that no rule decided on, LastByDefault is the last one.
	ByDefault     int64      `json:"by_default"`
	LastByDefault *time.Time `json:"last_by_default,omitempty"`
	Rules         []Rule     `json:"rules"` // as in the configuration
}

// Rule is a rule of policy.
type Rule struct {
	Name string `json:"name"`
	// At is its place, file:line; "" without a file.
	At string `json:"at,omitempty"`
	// Who describes the callers that it applies to, in words.
	Who   string   `json:"who"`
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	When  string   `json:"when,omitempty"`
	// Approvers describes the people one of them must approve, in words; "" if the user does.
	Approvers string `json:"approvers,omitempty"`
	// Decided counts the calls that the rule decided on, Last is the last one.
	Decided int64      `json:"decided"`
	Last    *time.Time `json:"last,omitempty"`
}

// SeriesQuestion asks for a series of counts.
type SeriesQuestion struct {
	Upstream string // "" for all
	Last     time.Duration
	Step     time.Duration // recent.Fine or recent.Coarse
}

func seriesQuestion(x *exchange) (q SeriesQuestion, err error) {
	values := x.r.URL.Query()
	if err := onlyOnce(values, "upstream", "last", "step"); err != nil {
		return q, err
	}
	q = SeriesQuestion{values.Get("upstream"), time.Hour, recent.Coarse}
	if text := values.Get("last"); text != "" {
		if q.Last, err = time.ParseDuration(text); err != nil || q.Last < recent.Fine || q.Last > recent.Longest {
			return q, BadRequest(fmt.Sprintf("last: %q: want %s to %s, such as 1h", text, recent.Fine, recent.Longest))
		}
	}
	switch values.Get("step") {
	case "", "1m":
	case "10s":
		q.Step = recent.Fine
		if q.Last > recent.LongestFine {
			return q, BadRequest(fmt.Sprintf("step: steps of 10s are kept for %s: ask for last=10m at most", recent.LongestFine))
		}
	default:
		return q, BadRequest(fmt.Sprintf("step: %q: want 1m or 10s", values.Get("step")))
	}
	return q, nil
}

// series returns the counts of calls over time.
func series(_ context.Context, a *API, _ Operator, q SeriesQuestion) (Series, error) {
	s, now := a.deps.Recent, time.Now()
	since := now.Add(-q.Last)
	answer := Series{
		Replica:  a.deps.Self,
		Upstream: q.Upstream,
		Counting: s.Started(),
		Step:     q.Step.String(),
		Points:   some(s.Points(q.Upstream, q.Step, since, now)),
		Total:    s.Total(q.Upstream, q.Step, since, now),
	}
	if q.Upstream == "" {
		for name, total := range s.Totals(q.Step, since, now) {
			if total.Calls+total.Refused > 0 {
				answer.Upstreams = append(answer.Upstreams, UpstreamTotal{name, total})
			}
		}
		slices.SortFunc(answer.Upstreams, func(a, b UpstreamTotal) int { return strings.Compare(a.Name, b.Name) })
	}
	return answer, nil
}

// rules returns the rules of policy.
func rules(_ context.Context, a *API, _ Operator, _ None) (Policy, error) {
	p := a.deps.Configuration.Policy()
	decided, since := a.deps.Recent.Rules()
	read := func(rule string) (int64, *time.Time) {
		d, found := decided[rule]
		if !found {
			return 0, nil
		}
		return d.Count, &d.Last
	}
	p.Replica, p.Counting = a.deps.Self, since
	p.ByDefault, p.LastByDefault = read("")
	p.Rules = some(p.Rules)
	for i, r := range p.Rules {
		p.Rules[i].Decided, p.Rules[i].Last = read(r.Name)
	}
	return p, nil
}

// onlyOnce refuses unknown and repeated parameters.
func onlyOnce(values url.Values, known ...string) error {
	for name, all := range values {
		if !slices.Contains(known, name) {
			return BadRequest(fmt.Sprintf("%q is no parameter here: there are %s", name, strings.Join(known, ", ")))
		}
		if len(all) > 1 {
			return BadRequest(name + ": is there twice")
		}
	}
	return nil
}

package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// Series is what happened over time, at this replica since it was started.
type Series struct {
	Replica string `json:"replica"`
	// Upstream is the server that it is about, "" for all.
	Upstream string `json:"upstream,omitempty"`
	// Counting is since when the replica counts.
	Counting time.Time `json:"counting"`
	// Step is how long each point is, such as 1m0s. The last one has not ended.
	Step   string         `json:"step"`
	Points []recent.Point `json:"points"` // oldest first
	Total  recent.Point   `json:"total"`
	// Upstreams are the totals of each server with calls, by name; only without Upstream.
	Upstreams []UpstreamTotal `json:"upstreams,omitempty"`
}

// UpstreamTotal is what happened at a server.
type UpstreamTotal struct {
	Name string `json:"name"`
	recent.Point
}

// Policy is the rules that hold, and how often each decided on a call at this replica.
type Policy struct {
	Replica string `json:"replica"`
	// Open says that there is no section policy: everything is allowed.
	Open    bool   `json:"open,omitempty"`
	Default string `json:"default"` // deny or allow
	// Counting is since when decisions are counted: the start, or the last change of policy.
	Counting time.Time `json:"counting"`
	// ByDefault is how many calls no rule decided on, LastByDefault the last one.
	ByDefault     int64      `json:"by_default"`
	LastByDefault *time.Time `json:"last_by_default,omitempty"`
	Rules         []Rule     `json:"rules"` // as in the configuration
}

// Rule is a rule of policy.
type Rule struct {
	Name string `json:"name"`
	// At is its place, file:line; "" without a file.
	At string `json:"at,omitempty"`
	// Who are the callers to whom it applies, in words.
	Who   string   `json:"who"`
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	Ask   []string `json:"ask,omitempty"`
	When  string   `json:"when,omitempty"`
	// Approvers are those of whom one has to approve, in words; "" if the user does.
	Approvers string `json:"approvers,omitempty"`
	// Decided is on how many calls it was the rule that decided, Last the last one.
	Decided int64      `json:"decided"`
	Last    *time.Time `json:"last,omitempty"`
}

// overTime answers with what happened over time.
func overTime(a *API, x *exchange) error {
	values := x.r.URL.Query()
	if err := onlyOnce(values, "upstream", "last", "step"); err != nil {
		return err
	}
	last, step := time.Hour, recent.Coarse
	if text := values.Get("last"); text != "" {
		var err error
		if last, err = time.ParseDuration(text); err != nil || last < recent.Fine || last > recent.Longest {
			return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("last: %q: want %s to %s, such as 1h", text, recent.Fine, recent.Longest))
		}
	}
	switch values.Get("step") {
	case "", "1m":
	case "10s":
		step = recent.Fine
		if last > recent.LongestFine {
			return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("step: steps of 10s are kept for %s: ask for last=10m at most", recent.LongestFine))
		}
	default:
		return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("step: %q: want 1m or 10s", values.Get("step")))
	}
	s, now := a.deps.Recent, time.Now()
	answer := Series{
		Replica: a.deps.Self, Upstream: values.Get("upstream"), Counting: s.Started(), Step: step.String(),
		Points: some(s.Points(values.Get("upstream"), step, now.Add(-last), now)),
		Total:  s.Total(values.Get("upstream"), step, now.Add(-last), now),
	}
	if answer.Upstream == "" {
		for name, total := range s.Totals(step, now.Add(-last), now) {
			if total.Calls+total.Refused > 0 {
				answer.Upstreams = append(answer.Upstreams, UpstreamTotal{name, total})
			}
		}
		slices.SortFunc(answer.Upstreams, func(a, b UpstreamTotal) int { return strings.Compare(a.Name, b.Name) })
	}
	return x.answer(answer)
}

// rules answers with the rules of policy.
func rules(a *API, x *exchange) error {
	p := a.deps.Policy()
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
	return x.answer(p)
}

// onlyOnce refuses parameters that are not known, and those that are there twice.
func onlyOnce(values url.Values, known ...string) error {
	for name, all := range values {
		if !slices.Contains(known, name) {
			return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("%q is no parameter here: there are %s", name, strings.Join(known, ", ")))
		}
		if len(all) > 1 {
			return refusal(http.StatusBadRequest, failure.AdminRequest, name+": is there twice")
		}
	}
	return nil
}

package diagnose

import (
	"cmp"
	"fmt"
	"net/url"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// lately is the time that is compared with the hour before.
	lately = 2 * time.Minute
	before = time.Hour
	// fewErrors and fewRefused are the least numbers for a finding.
	fewErrors  = 5
	fewRefused = 10
	// rise is the least factor over the hour before for a finding.
	rise = 3
	// mostCalls is the share of failed calls, in hundredths, above which the number before does not
	// matter.
	mostCalls = 50
)

// change has the numbers lately, and in the hour before.
type change struct {
	now, then recent.Point
	ago       time.Time     // when lately began
	over      time.Duration // the counted part of the hour before
}

func (f Facts) change(upstream string) change {
	c := change{ago: f.Now.Add(-lately)}
	from := c.ago.Add(-before)
	if started := f.Series.Started(); started.After(from) {
		from = started
	}
	c.over = max(0, c.ago.Sub(from))
	c.now = f.Series.Total(upstream, recent.Fine, c.ago, f.Now.Add(1))
	c.then = f.Series.Total(upstream, recent.Coarse, from, c.ago.Truncate(recent.Coarse))
	return c
}

// rose reports whether something happens much more often than in the hour before.
func (c change) rose(now, then int64) bool {
	return float64(now)*c.over.Minutes() > rise*float64(then)*lately.Minutes() || then == 0
}

// compared describes how often something happened, compared with before.
func (c change) compared(now, then int64, one, many string) string {
	text := count(now, one, many) + " in the last two minutes"
	if c.over < lately {
		return text + "."
	}
	return fmt.Sprintf("%s, %d in the %s before.", text, then, minutes(c.over))
}

func minutes(d time.Duration) string {
	if n := int(d.Minutes()); n < 59 {
		return fmt.Sprintf("%d minutes", n)
	}
	return "hour"
}

// failing finds servers, or the gateway, with more failed calls than before.
func failing(f Facts) (all []admin.Finding) {
	fails := func(upstream string) (c change, yes bool) {
		c = f.change(upstream)
		many := c.now.Errors*100 >= c.now.Calls*mostCalls
		some := c.now.Errors*20 >= c.now.Calls && c.rose(c.now.Errors, c.then.Errors)
		return c, c.now.Errors >= fewErrors && (many || some)
	}
	for _, u := range f.Upstreams {
		c, yes := fails(u.Name)
		if !yes {
			continue
		}
		all = append(all, admin.Finding{
			Severity: admin.Warning, Kind: "errors", Subject: u.Name, Since: since(c.ago),
			What: fmt.Sprintf("Calls to %s fail: %d of %d in the last two minutes.", u.Name, c.now.Errors, c.now.Calls),
			Cause: c.compared(c.now.Errors, c.then.Errors, "error",
				"errors") + f.mostly(record.Filter{Kinds: []string{record.KindCall}, Upstream: u.Name, Outcomes: failed,
				Since: c.ago}, "the call", (*entry).name),
			Next: "Look at one of the failed calls: it says what the server answered.",
			Look: "/api/v1/decisions?kind=call&outcome=upstream,unavailable,error,internal&upstream=" + url.QueryEscape(u.Name),
		})
	}
	if c, yes := fails(""); yes && len(all) == 0 {
		all = append(all, admin.Finding{
			Severity: admin.Warning, Kind: "errors", Since: since(c.ago),
			What: fmt.Sprintf("Calls fail: %d of %d in the last two minutes.", c.now.Errors, c.now.Calls),
			Cause: c.compared(c.now.Errors, c.then.Errors, "error",
				"errors") + f.mostly(record.Filter{Kinds: []string{record.KindCall}, Outcomes: failed, Since: c.ago},
				"the call", (*entry).name),
			Next: "Look at one of the failed calls: it says where it failed.",
			Look: "/api/v1/decisions?kind=call&outcome=upstream,unavailable,error,internal",
		})
	}
	return all
}

var failed = []string{"upstream", "unavailable", "error", "internal"}

// refusals returns a finding if more calls are refused than before.
func refusals(f Facts) []admin.Finding {
	c := f.change("")
	if c.now.Refused < fewRefused || !c.rose(c.now.Refused, c.then.Refused) {
		return nil
	}
	filter := record.Filter{Kinds: []string{record.KindCall}, Decisions: []string{"deny", "unknown"}, Since: c.ago}
	return []admin.Finding{{
		Severity: admin.Warning, Kind: "refusals", Since: since(c.ago),
		What: "More calls are refused than before.",
		Cause: c.compared(c.now.Refused, c.then.Refused, "refusal", "refusals") + f.mostly(filter, "the rule",
			(*entry).rule) + f.mostly(filter, "the user", (*entry).user),
		Next: "Look at the refused calls: either a rule is too strict, or somebody tries what they may not do.",
		Look: "/api/v1/decisions?kind=call&decision=deny,unknown",
	}}
}

// turnedAway returns a finding if more requests are turned away than before, such as those with bad tokens.
func turnedAway(f Facts) []admin.Finding {
	c := f.change("")
	if c.now.TurnedAway < fewRefused || !c.rose(c.now.TurnedAway, c.then.TurnedAway) {
		return nil
	}
	filter := record.Filter{Kinds: []string{record.KindSignIn, record.KindRefused}, Since: c.ago}
	return []admin.Finding{{
		Severity: admin.Warning, Kind: "turned-away", Since: since(c.ago),
		What: "More requests are turned away than before.",
		Cause: c.compared(c.now.TurnedAway, c.then.TurnedAway, "request", "requests") + f.mostly(filter, "the reason",
			(*entry).reason),
		Next: "Look at the reasons: tokens that the gateway does not accept come from one client or one issuer.",
		Look: "/api/v1/decisions?kind=signin,refused",
	}}
}

// entry is a record for counting.
type entry record.Record

func (e *entry) name() string {
	if e.Original != "" {
		return e.Upstream + "/" + e.Original
	}
	return e.Name
}

func (e *entry) user() string { return e.User }

func (e *entry) reason() string {
	if e.Event == "ok" {
		return ""
	}
	return e.Reason
}

func (e *entry) rule() string {
	switch {
	case e.Rule != "" && e.RuleAt != "":
		return e.Rule + " at " + e.RuleAt
	case e.Rule == "" && e.Decision == "deny":
		return "default"
	}
	return e.Rule
}

// mostly tells what most of the matching recent records have in common, "" for nothing.
func (f Facts) mostly(filter record.Filter, label string, of func(*entry) string) string {
	counts, all := make(map[string]int), 0
	for _, e := range f.Records(filter) {
		all++
		if text := of((*entry)(e)); text != "" {
			counts[text]++
		}
	}
	most, n := "", 0
	for text, times := range counts {
		if cmp.Or(cmp.Compare(times, n), cmp.Compare(most, text)) > 0 {
			most, n = text, times
		}
	}
	if 2*n <= all {
		return ""
	}
	return fmt.Sprintf(" Most: %s %s.", label, most)
}

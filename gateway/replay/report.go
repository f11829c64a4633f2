package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Kinds of changes by a draft, the most important first.
const (
	Refused = "refused" // an allowed call, or one that was asked about, is refused
	Asked   = "asked"   // the user is asked, and was not
	Allowed = "allowed" // a refused call, or one that was asked about, is allowed
	Rule    = "rule"    // another rule decides the same
	Untold  = "untold"  // the decision cannot be determined
)

// Changes are all kinds of changes, the most important first.
var Changes = []string{Refused, Asked, Allowed, Rule, Untold}

// Report is the result of a replay.
type Report struct {
	// Calls counts the replayed ones, the first at First, the last at Last. Others counts calls
	// that need no decision of their own, such as lists.
	Calls  int64     `json:"calls"`
	Others int64     `json:"others"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	// Same counts the calls decided as they were, by the same rule; Changed counts the others, by
	// kinds of changes.
	Same    int64            `json:"same"`
	Changed map[string]int64 `json:"changed"`
	// Unclear counts those of Same with a rule that cannot be determined; Unchecked counts the
	// calls judged without the input schema of their tool.
	Unclear   int64 `json:"unclear,omitempty"`
	Unchecked int64 `json:"unchecked,omitempty"`
	// Rows are the changes, the most important first. MoreRows counts the calls in none of them.
	Rows     []Row `json:"rows"`
	MoreRows int64 `json:"more_rows,omitempty"`
	// Unused are the rules of the draft that applied to no call, UnusedNow those in force; null
	// if these are not known.
	Unused    []Unused `json:"unused"`
	UnusedNow []Unused `json:"unused_now"`
	// Notes tell what is not considered.
	Notes []string `json:"notes,omitempty"`
	// Problems are places without a record. MoreProblems counts those that were left out.
	Problems     []Problem `json:"problems,omitempty"`
	MoreProblems int64     `json:"more_problems,omitempty"`
}

// Row is a group of one user's calls of one thing that change alike.
type Row struct {
	Change string `json:"change"`
	User   string `json:"user,omitempty"`
	View   string `json:"view,omitempty"`
	// What is the called thing: kind:upstream/name, or the public name if no server had it.
	What string `json:"what"`
	Was  Side   `json:"was"`
	// Now is nil if it cannot be determined; Reason says why.
	Now    *Side     `json:"now,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Count  int64     `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Side is a decision: allow, ask, deny or unknown.
type Side struct {
	Decision string `json:"decision,omitempty"`
	// Rule decided, at a place of a configuration, file:line; "" for none. Why says what else
	// decided.
	Rule string `json:"rule,omitempty"`
	At   string `json:"rule_at,omitempty"`
	Why  string `json:"why,omitempty"`
}

func (s *Side) compare(other *Side) int {
	if s == nil || other == nil {
		return 0
	}
	return cmp.Or(strings.Compare(s.Decision, other.Decision), strings.Compare(s.Rule, other.Rule),
		strings.Compare(s.At, other.At))
}

// Unused is a rule that applied to no call.
type Unused struct {
	Rule string `json:"rule"`
	At   string `json:"rule_at,omitempty"`
	// Untold counts the calls that it may have applied to: that cannot be determined.
	Untold int64 `json:"untold,omitempty"`
}

// Problem is a line that is no record.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
}

// rowKey is the part that the calls of a row have in common.
type rowKey struct {
	change, user, view, what, reason string
	was, now                         Side
}

// count adds a call to the report.
func (r *Replay) count(c *record.Record, was Side, now verdict) {
	change := changeOf(was, now)
	if change == "" {
		r.report.Same++
		if now.unclear {
			r.report.Unclear++
		}
		return
	}
	if r.report.Changed == nil {
		r.report.Changed = make(map[string]int64)
	}
	r.report.Changed[change]++
	key := rowKey{change: change, user: c.User, view: c.View, what: whatOf(c), reason: now.untold, was: was, now: now.Side}
	row := r.rows[key]
	if row == nil {
		if len(r.rows) >= mostRows {
			r.report.MoreRows++
			return
		}
		row = &Row{Change: change, User: key.user, View: key.view, What: key.what, Reason: key.reason, Was: was,
			First: c.Time, Last: c.Time}
		if now.untold == "" {
			row.Now = &now.Side
		}
		r.rows[key] = row
	}
	row.Count++
	if c.Time.Before(row.First) {
		row.First = c.Time
	}
	if c.Time.After(row.Last) {
		row.Last = c.Time
	}
}

// changeOf returns how a decision changes, "" if it does not.
func changeOf(was Side, now verdict) string {
	refused := func(decision string) bool { return decision == "deny" || decision == unknown }
	switch {
	case now.untold != "":
		return Untold
	case refused(now.Decision) && !refused(was.Decision):
		return Refused
	case now.Decision == "ask" && was.Decision != "ask":
		return Asked
	case now.Decision == "allow" && was.Decision != "allow":
		return Allowed
	case !now.unclear && (now.Rule != was.Rule || now.Decision != was.Decision):
		return Rule
	}
	return ""
}

func whatOf(c *record.Record) string {
	if c.Upstream == "" || c.Original == "" || c.Thing == "" {
		return c.Name
	}
	return mcp.Target{Kind: c.Thing, Upstream: c.Upstream, Name: c.Original}.String()
}

// Note adds a note to the report.
func (r *Replay) Note(text string) { r.report.Notes = append(r.report.Notes, text) }

// Report returns the result. Nothing may be read afterwards.
func (r *Replay) Report() *Report {
	o := &r.report
	o.Rows = make([]Row, 0, len(r.rows))
	for _, row := range r.rows {
		o.Rows = append(o.Rows, *row)
	}
	slices.SortFunc(o.Rows, func(a, b Row) int {
		return cmp.Or(slices.Index(Changes, a.Change)-slices.Index(Changes, b.Change), cmp.Compare(b.Count, a.Count),
			strings.Compare(a.User, b.User), strings.Compare(a.What, b.What), strings.Compare(a.View, b.View),
			strings.Compare(a.Reason, b.Reason), a.Was.compare(&b.Was), a.Now.compare(b.Now))
	})
	if o.Changed == nil {
		o.Changed = map[string]int64{}
	}
	o.Unused = append([]Unused{}, r.draft.unused()...)
	if r.current != nil {
		o.UnusedNow = append([]Unused{}, r.current.unused()...)
	}
	return o
}

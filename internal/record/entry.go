package record

import (
	"strings"
	"time"
)

// AppendJSON writes the record as an object, with the members of docs/audit.md but without
// those of a chain. Each of more is a member in front: a name and a text.
func (r *Record) AppendJSON(dst []byte, more ...string) []byte {
	begin := len(dst)
	w := members(dst)
	for i := 0; i+1 < len(more); i += 2 {
		w.text(more[i], more[i+1])
	}
	dst = r.appendMembers(w)
	dst[begin] = '{' // in place of the first comma: each record has a time
	return append(dst, '}')
}

// Cut reports whether a text of a record may be only the beginning of what it was.
func Cut(text string) bool { return len(text) >= maxText && strings.HasSuffix(text, cutEnd) }

// Entry is what would be read of the record.
func (r *Record) Entry() *Entry { return new(r.entry()) }

// entry is Entry without an allocation.
func (r *Record) entry() Entry {
	return Entry{
		Time: r.Time.Truncate(time.Microsecond), Kind: r.Kind, ID: r.ID, Event: r.Event, Reason: r.Reason,
		User: r.User, Client: r.Client, Agent: r.Agent, View: r.View, Session: r.Session, ClientAddress: r.ClientAddress, UserAgent: r.UserAgent, Method: r.Method, Name: r.Name, Upstream: r.Upstream, Original: r.Original,
		Decision: r.Decision, Rule: r.Rule, RuleAt: r.RuleAt, Approval: r.Approval, Approver: r.Approver, Limit: r.Limit,
		Outcome: r.Outcome, Executed: r.Executed, Explained: r.Explained, ServerError: r.ServerError, Duration: float64(r.Duration.Microseconds()) / 1000,
		List: r.List, Added: r.Added, Removed: r.Removed, Changed: r.Changed, Count: r.Count,
	}
}

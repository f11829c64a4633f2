package observe

import (
	"cmp"
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Recorder makes the records of calls. All fields are required.
type Recorder struct {
	// Journal takes the records.
	Journal *audit.Journal
	// RuleAt returns the place of a policy rule, file:line; "" if it is not known.
	RuleAt func(rule string) string
	// Keeps returns the recorded parts of arguments of the calls on which a rule decides; nil for a
	// digest only.
	Keeps func(rule string) *record.Keep
	// Server returns the protocol revision that a server speaks, "" if it is not known, and
	// whether the server keeps sessions.
	Server func(upstream string) (revision string, stateful bool)
}

func (r *Recorder) enabled() bool { return r != nil && r.Journal.Enabled() }

// admit returns an error if a call must not run, because its record would have no room.
func (r *Recorder) admit(ctx context.Context) error {
	if !r.enabled() {
		return nil
	}
	return r.Journal.Admit(ctx)
}

// record records a call that was answered.
func (r *Recorder) record(c *mcp.Call, reply *mcp.Reply, how outcome, err error, end ending) {
	known, _ := errors.AsType[*mcp.Error](err)
	v := c.Verdict
	out := by(c.Caller, record.KindCall)
	out.Time, out.Duration, out.Trace, out.Trail = end.at, end.took, traceOf(c), c.Trail
	out.ID, out.Continues, out.Revision, out.Era = c.ID, c.Continues, c.Revision, eras[eraOf(c)]
	out.Method, out.Name, out.Upstream, out.Original = c.Method, c.Name, v.Target.Upstream, v.Target.Name
	out.Thing, out.File = v.Target.Kind, v.Target.File
	out.Decision, out.Rule, out.Explained = v.Effect, v.Rule, v.Explained
	out.Approval, out.Approver, out.Hooks = v.Approval, v.Approver, v.Hooks
	out.Outcome, out.Executed, out.Reason = outcomes[how], executedOf(c), v.Reason
	out.ServerError = record.ServerError(v.ServerError)
	out.RequestBytes, out.ReplyBytes = len(c.Params), sizeOf(reply)
	if c.Session != "" {
		out.Session = record.Digest(c.Session)
	}
	switch {
	case known != nil:
		out.Code, out.Error = known.Code, known.Name.String()
		if out.Upstream == "" {
			out.Upstream = upstreamOf(known)
		}
		if limit, ok := known.Data.Member("limit"); ok && known.Code == mcp.CodeRateLimited && v.Target.Upstream == "" {
			out.Limit = limit.Text()
		}
	case how == outcomeInternal:
		out.Code, out.Error = mcp.CodeInternal, failure.Internal.String()
	}
	if v.Rule != "" {
		out.RuleAt = r.RuleAt(v.Rule)
	}
	if out.Upstream != "" {
		if revision, stateful := r.Server(out.Upstream); revision != "" {
			out.UpstreamRevision, out.UpstreamEra = revision, eras[1]
			if stateful {
				out.UpstreamEra = eras[0]
			}
		}
	}
	if c.Method == mcp.MethodToolsCall || c.Method == mcp.MethodPromptsGet {
		if arguments, ok := c.Outline.Member(c.Params, "arguments"); ok {
			out.ArgumentsDigest = r.Journal.Key().Arguments(arguments)
			if keep := r.Keeps(v.Rule); keep != nil {
				out.Arguments, out.ArgumentsOmitted = keep.Of(arguments)
			}
		}
	}
	r.Journal.Put(out)
}

// executedOf tells whether a call has run at its server, "" for calls that run nothing.
func executedOf(c *mcp.Call) string {
	if c.Name == "" {
		return string(c.Verdict.Executed)
	}
	return string(cmp.Or(c.Verdict.Executed, mcp.ExecutedNo))
}

// sizeOf returns the size of a reply's content from its server, in bytes.
func sizeOf(reply *mcp.Reply) int {
	if reply == nil {
		return 0
	}
	size := len(reply.Result)
	if reply.List != nil {
		for _, item := range reply.List.Items {
			size += len(item.Raw)
		}
	}
	return size
}

// traceOf returns the id of a call's trace: the gateway's, else the client's, "" for none.
func traceOf(c *mcp.Call) string {
	if c.Trace != nil {
		return c.Trace.ID
	}
	parent := c.Params.At("_meta", mcp.MetaTraceparent).Text()
	if !mcp.ValidTraceparent(parent) {
		return ""
	}
	return mcp.TraceID(parent)
}

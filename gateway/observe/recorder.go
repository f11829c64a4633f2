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
	// Keeps returns what is recorded of the arguments of the calls on which a rule decides;
	// nil for a digest only.
	Keeps func(rule string) *record.Keep
	// Server returns the protocol revision that a server speaks, "" if it is not known, and
	// whether the server keeps sessions.
	Server func(upstream string) (revision string, stateful bool)
}

func (r *Recorder) enabled() bool { return r != nil && r.Journal.Enabled() }

// admit returns an error where a call must not run, because its record would have no room.
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
	out := &record.Record{
		Time: end.at, Kind: record.KindCall, ID: c.ID, Continues: c.Continues,
		Issuer: c.Caller.Issuer, User: c.Caller.Subject, Groups: c.Caller.Groups, Client: c.Caller.ClientID, View: c.Caller.View,
		ClientAddress: c.Caller.From.Address, UserAgent: c.Caller.From.Agent,
		Revision: c.Revision, Era: eras[eraOf(c)],
		Method: c.Method, Name: c.Name, Upstream: v.Target.Upstream, Original: v.Target.Name, Thing: v.Target.Kind, File: v.Target.File,
		Decision: v.Effect, Rule: v.Rule, Explained: v.Explained, Approval: v.Approval, Hooks: v.Hooks, Approver: v.Approver,
		Outcome: outcomes[how], Executed: executedOf(c), Reason: v.Reason, ServerError: record.ServerError(v.ServerError),
		Duration: end.took, RequestBytes: len(c.Params), ReplyBytes: sizeOf(reply), Trace: traceOf(c),
	}
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
		revision, stateful := r.Server(out.Upstream)
		if out.UpstreamRevision = revision; revision != "" {
			out.UpstreamEra = eraName(stateful)
		}
	}
	if c.Method == mcp.MethodToolsCall || c.Method == mcp.MethodPromptsGet {
		if arguments, ok := c.Params.Member("arguments"); ok {
			out.ArgumentsDigest = r.Journal.Key().Arguments(arguments)
			if keep := r.Keeps(v.Rule); keep != nil {
				out.Arguments, out.ArgumentsOmitted = keep.Of(arguments)
			}
		}
	}
	r.Journal.Put(out)
}

func eraName(stateful bool) string {
	if stateful {
		return eras[0]
	}
	return eras[1]
}

// executedOf says whether a call has run at its server, "" for calls that run nothing.
func executedOf(c *mcp.Call) string {
	if c.Name == "" {
		return string(c.Verdict.Executed)
	}
	return string(cmp.Or(c.Verdict.Executed, mcp.ExecutedNo))
}

// sizeOf is the size of what a reply brings from its server, in bytes.
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

// traceOf returns the id of the trace of a call, that of the client without one of ours. ""
// if there is none.
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

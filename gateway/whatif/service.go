package whatif

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Service answers operators of a gateway by the configuration in force. All fields are required.
type Service struct {
	Configuration operate.Configuration
	Recent        *recent.Records
	Journal       *audit.Journal // has the key of the digests of arguments
	// Calls answers calls of clients. Observe makes one by it, and records it.
	Calls   mcp.Handler
	Observe func(context.Context, *mcp.Call, mcp.Handler) (*mcp.Reply, error)
	// Own makes this replica the owner of what servers keep for a call.
	Own    func(context.Context, *mcp.Call) error
	Memory *mcp.Memory
	Self   string // this replica
}

// Explain explains the decision of policy. Its error describes the mistake in the question.
func (s Service) Explain(ctx context.Context, q admin.Question) (admin.Answer, error) {
	now := s.Configuration.Now()
	answer, err := Explain(ctx, now.Config, q)
	answer.RuleAt = now.Places[answer.Rule]
	return answer, err
}

// Examine judges a token at the endpoint of a view, also one of the gateway's own authorization
// server. The error is that of admin.BadRequest.
func (s Service) Examine(ctx context.Context, token, view string) (admin.Examined, error) {
	now := s.Configuration.Now()
	return examine(ctx, now.Config, now.Auth, token, view)
}

// mostDraftRules bounds the rules of a draft: compiling their conditions slows calls down.
const mostDraftRules = 2000

// Replay runs a draft against the calls in memory. The operator may know neither the environment
// nor the files of this machine, so the draft decides nothing by them. The error is an
// *admin.BadDraft, or that of ctx.
func (s Service) Replay(ctx context.Context, d admin.Draft) (*replay.Report, error) {
	draft, err := config.ReadBlindly("draft", []byte(d.Config), nil)
	if err == nil {
		err = config.DecidesBlindly(draft)
	}
	if n := len(draft.Config.Policy.Rules); err == nil && n > mostDraftRules {
		err = fmt.Errorf("policy.rules: %d are more than %d: let gatehouse policy replay try them, with files of records",
			n, mostDraftRules)
	}
	if err != nil {
		return nil, &admin.BadDraft{Problems: operate.Problems(err)}
	}
	d.Filter.Kinds = []string{record.KindCall}
	found := s.Recent.Find(ctx, recent.Query{Filter: d.Filter})
	cfg := replay.Config{Key: s.Journal.Key(), NoArguments: !d.Arguments}
	r, err := NewReplay(cfg, draft, s.Configuration.InForce())
	if err != nil {
		return nil, err
	}
	if found.Partial != nil {
		r.Note("Redis does not answer: calls at other replicas may be missing.")
	}
	for _, item := range slices.Backward(found.Items) { // the newest one is first
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Record(ctx, item.Shown(d.Arguments))
	}
	return r.Report(), nil
}

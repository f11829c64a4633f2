package policy

import (
	"bytes"
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Resolver finds what a public name stands for; gateway/catalog is one. Kind is one of
// the mcp.Kind words. ok is false for what nobody can have.
type Resolver interface {
	Resolve(ctx context.Context, kind, public string) (to mcp.Target, ok bool)
	// InputSchema returns the input schema of a tool as the caller in ctx is shown it, nil
	// for one that cannot be known. It is asked only about tools that the caller may see.
	InputSchema(ctx context.Context, public string) mcp.Raw
}

// GuardDeps are what a Guard works with.
type GuardDeps struct {
	// Resolver is needed.
	Resolver Resolver
	// Approvals remember what users were asked and what they approved of; nil for this
	// process's own memory.
	Approvals Approvals
	// Metrics count what is decided; nil for nobody to know.
	Metrics *Metrics
}

// Guard stands directly above the catalog: nothing gets to an upstream past it. It sets
// Call.Target for what may pass, filters lists by the same decision, and asks the user
// where a rule wants it.
type Guard struct {
	policy    *Policy
	resolver  Resolver
	approvals Approvals
	views     *views
	metrics   *Metrics
}

// NewGuard makes a Guard of a policy.
func NewGuard(p *Policy, deps GuardDeps) (*Guard, error) {
	if p == nil || deps.Resolver == nil {
		return nil, errors.New("policy: a guard needs a policy and a resolver")
	}
	if deps.Approvals == nil {
		deps.Approvals = NewMemory()
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	views, err := newViews(p)
	if err != nil {
		return nil, err
	}
	return &Guard{policy: p, resolver: deps.Resolver, approvals: deps.Approvals, views: views, metrics: deps.Metrics}, nil
}

// Middleware puts the guard in front of the catalog. A method that is not known here
// does not exist: it could name something that nobody decided on.
func (g *Guard) Middleware(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		switch c.Method {
		case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
			return g.use(ctx, c, next)
		case mcp.MethodComplete:
			return g.complete(ctx, c, next)
		case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
			return g.task(ctx, c, next)
		case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList, mcp.MethodSkillsList:
			return g.list(ctx, c, next)
		case mcp.MethodDiscover:
			inner := bare(c)
			inner.Visible = g.policy.upstreams(&c.Caller)
			return next.Handle(ctx, inner)
		case mcp.MethodListen:
			return g.listen(ctx, c, next)
		}
		return nil, mcp.ErrMethod(c.Method)
	})
}

// bare is a copy of a call without what only the guard may say.
func bare(c *mcp.Call) *mcp.Call {
	inner := c.Clone()
	inner.Target, inner.Visible = mcp.Target{}, nil
	return inner
}

// kindOf returns the kind of what a call names, "" for none.
func kindOf(c *mcp.Call) string {
	switch c.Method {
	case mcp.MethodToolsCall:
		return mcp.KindTools
	case mcp.MethodPromptsGet:
		return mcp.KindPrompts
	case mcp.MethodResourcesRead, mcp.MethodDirectoryRead:
		return mcp.KindResources
	case mcp.MethodSkillsGet:
		return mcp.KindSkills
	case mcp.MethodComplete:
		ref, _ := c.Params.Member("ref")
		switch kind, _ := ref.Member("type"); kind.Text() {
		case "ref/prompt":
			return mcp.KindPrompts
		case "ref/resource":
			return mcp.KindResources
		}
	}
	return ""
}

func hasArguments(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet
}

// argumentsOf returns the arguments that conditions judge. The front has refused params
// in which they stand twice; this is for calls that do not come from there.
func argumentsOf(c *mcp.Call) (arguments mcp.Raw, err error) {
	if !hasArguments(c.Method) {
		return nil, nil
	}
	count := 0
	c.Params.Members(func(name []byte, value mcp.Raw) bool {
		switch {
		case string(name) == "arguments":
			arguments = value
			count++
		case bytes.IndexByte(name, '\\') >= 0, bytes.EqualFold(name, []byte("arguments")):
			count = 2
		}
		return count < 2
	})
	if count > 1 {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: it is not clear which are the arguments")
	}
	return arguments, nil
}

// use decides on a call of a tool, prompt or resource. What is denied answers as what
// does not exist.
func (g *Guard) use(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	arguments, err := argumentsOf(c)
	if err != nil {
		return nil, err
	}
	target, ok := g.resolver.Resolve(ctx, kindOf(c), c.Name)
	if !ok {
		return g.unknown(ctx, c, next)
	}
	if target.Template {
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	if ctx.Err() != nil {
		return g.letGo(ctx, c, next, target)
	}
	decision, unfit := g.policy.decide(ctx, &c.Caller, target, arguments, g.resolver, c.Name)
	if err := ctx.Err(); err != nil {
		return nil, err // conditions that it cut off are not judged
	}
	g.decided(c, target, decision)
	switch decision.Effect {
	case Allow:
		round, err := openState(c.State)
		if err != nil {
			return nil, err
		}
		return g.pass(ctx, c, next, target, round, "")
	case Ask:
		if !mcp.CanAsk(c.Method) {
			return g.withoutAsking(ctx, c, next, target, decision)
		}
		return g.approve(ctx, c, next, target, decision)
	}
	if hasArguments(c.Method) && g.policy.Visible(&c.Caller, target) {
		return nil, notWithThese(c, unfit)
	}
	return nil, mcp.ErrUnknown(c.Method, c.Name)
}

// notWithThese is the error of a call of what is in the caller's lists, and which they
// could make with other arguments: there is nothing to hide but what the rules say.
func notWithThese(c *mcp.Call, unfit error) error {
	message := "Not allowed with these arguments: " + c.Name
	if unfit != nil {
		message += ": " + unfit.Error()
	}
	return &mcp.Error{Code: mcp.CodeInvalidParams, Message: message,
		Data: mcp.Object("reason", mcp.String("arguments"), "retryable", mcp.Raw("false"), "executed", mcp.String(string(mcp.ExecutedNo)))}
}

// decided counts a decision, and tells it to whoever observes the call.
func (g *Guard) decided(c *mcp.Call, target mcp.Target, d Decision) {
	g.metrics.decided(d.Effect)
	if c.Verdict != nil {
		*c.Verdict = mcp.Verdict{Target: target, Effect: d.Effect.String(), Rule: d.Rule}
	}
}

// withoutAsking serves the methods of skills, which stateless clients cannot be asked
// about. What tells no more than the list does needs no approval: an entry, the names in
// a directory. The text of a skill does.
func (g *Guard) withoutAsking(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target, d Decision) (*mcp.Reply, error) {
	_, byURI := mcp.SkillKey(c.Params)
	if c.Method == mcp.MethodDirectoryRead || byURI {
		inner := bare(c)
		inner.Target = target
		return next.Handle(ctx, inner)
	}
	if c.Ephemeral {
		return refuse(c, "This skill needs the user's approval, for which skills/get cannot ask in this protocol revision: read its "+mcp.SkillFile+" by resources/read.", "cannot_ask")
	}
	return g.approve(ctx, c, next, target, d)
}

// Sees reports whether a caller may know of what has a public name or URI, as for a list.
func (g *Guard) Sees(ctx context.Context, caller *mcp.Caller, kind, public string) bool {
	target, ok := g.resolver.Resolve(ctx, kind, public)
	return ok && g.policy.Visible(caller, target)
}

// SeesAll reports whether a caller may know of everything that there is.
func (g *Guard) SeesAll(*mcp.Caller) bool { return g.policy.open() }

// letGo hands on a retry whose caller has left: it runs nothing, and frees what the
// upstream has put aside for the call, whatever policy says by now.
func (g *Guard) letGo(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target) (*mcp.Reply, error) {
	round, err := openState(c.State)
	if err != nil || round.inner == "" {
		return nil, context.Cause(ctx)
	}
	inner := bare(c)
	inner.Target, inner.State, inner.Answers = target, round.inner, nil
	return next.Handle(ctx, inner)
}

// unknown has the catalog answer for a name that it does not know, with a target that is
// none of its own: should the name have come up in the meantime, it stays unknown.
func (g *Guard) unknown(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.metrics.unknown.Inc()
	if c.Verdict != nil {
		*c.Verdict = mcp.Verdict{Effect: "unknown"}
	}
	inner := bare(c)
	inner.Target = mcp.Target{Kind: kindOf(c)}
	if mcp.IsTaskMethod(c.Method) {
		inner.Visible = g.policy.upstreams(&c.Caller)
	}
	return next.Handle(ctx, inner)
}

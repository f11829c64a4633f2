package policy

import (
	"bytes"
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

// GuardDeps are the dependencies of a Guard.
type GuardDeps struct {
	// Approvals remember what users were asked and what they approved of; nil for this
	// process's own memory.
	Approvals Approvals
	// FourEyes has the calls that wait for other people than their user; nil for a table that is
	// never shown.
	FourEyes *foureyes.Table
	// Lasting ends the wait of a call with the credential of its caller; nil for until it expires.
	Lasting *mcp.Lasting
	// Metrics count decisions; they may be nil.
	Metrics *Metrics
}

// Guard stands directly above the catalog, so nothing reaches an upstream without passing it.
// It sets Call.Target on calls that may pass, filters lists by the same decision, and asks
// the user if a rule says so.
type Guard struct {
	policy    *Policy
	approvals Approvals
	fourEyes  *foureyes.Table
	lasting   *mcp.Lasting
	metrics   *Metrics
	reign     context.Context // ends with Retire
	retire    context.CancelFunc
}

// NewGuard makes a Guard of a policy. It fails without one.
func NewGuard(p *Policy, deps GuardDeps) (*Guard, error) {
	if p == nil {
		return nil, errors.New("policy: a guard needs a policy")
	}
	if deps.Approvals == nil {
		deps.Approvals = NewMemory()
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	if deps.FourEyes == nil {
		deps.FourEyes = foureyes.New(foureyes.Deps{})
	}
	if deps.Lasting == nil {
		deps.Lasting = mcp.NewLasting(nil)
	}
	g := &Guard{policy: p, approvals: deps.Approvals, fourEyes: deps.FourEyes, lasting: deps.Lasting,
		metrics: deps.Metrics}
	g.reign, g.retire = context.WithCancel(context.Background()) // until Retire
	return g, nil
}

// Stop says that another guard decides from now on. Calls that wait here for an approver, also
// those that have just arrived, end, to be decided again.
func (g *Guard) Stop() { g.retire() }

// Middleware puts the guard in front of the catalog. A method that the guard does not know
// does not exist: it could name something that no rule has decided.
func (g *Guard) Middleware(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		switch c.Method {
		case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodSkillsGet, mcp.MethodDirectoryRead:
			return g.use(ctx, c, next)
		case mcp.MethodComplete:
			return g.complete(ctx, c, next)
		case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult:
			return g.task(ctx, c, next)
		case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
			mcp.MethodSkillsList:
			return g.list(ctx, c, next)
		case mcp.MethodDiscover:
			return next.Handle(ctx, g.withVisible(c))
		case mcp.MethodListen:
			return g.listen(ctx, c, next)
		}
		return nil, mcp.ErrMethod(c.Method)
	})
}

// bare copies a call without the fields that only the guard may set. Of a directory, its caller sees
// what lists show.
func (g *Guard) bare(c *mcp.Call) *mcp.Call {
	inner := c.Clone()
	inner.Target, inner.Visible, inner.VisibleSkills, inner.Sees = mcp.Target{}, nil, nil, nil
	if c.Method == mcp.MethodDirectoryRead && !g.policy.openTo(&c.Caller) {
		inner.Sees = func(target mcp.Target) bool { return g.policy.Visible(&c.Caller, target) }
	}
	return inner
}

// withVisible copies a call, and says which upstreams its caller may know of.
func (g *Guard) withVisible(c *mcp.Call) *mcp.Call {
	inner := g.bare(c)
	inner.Visible, inner.VisibleSkills = g.policy.upstreams(&c.Caller), g.policy.upstreams(&c.Caller, mcp.KindSkills)
	return inner
}

func hasArguments(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet
}

// argumentsOf returns the arguments that conditions judge. The front refuses duplicate
// arguments; the check here is for calls from elsewhere.
func argumentsOf(c *mcp.Call) (arguments mcp.Raw, err error) {
	if !hasArguments(c.Method) {
		return nil, nil
	}
	count := 0
	c.Outline.Members(c.Params, func(name []byte, value mcp.Raw) bool {
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
		return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: it is not clear which are the arguments")
	}
	return arguments, nil
}

// use decides on a call of a tool, prompt or resource. A denied name gets the answer of a
// name that does not exist.
func (g *Guard) use(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	arguments, err := argumentsOf(c)
	if err != nil {
		return nil, err
	}
	target, ok := c.Lens.Target(ctx, c.Kind(), c.Name)
	if !ok {
		return g.unknown(ctx, c, next)
	}
	if target.Template {
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	decision, explained, unfit := g.policy.decide(ctx, &c.Caller, target, arguments, c)
	if err := ctx.Err(); err != nil {
		return nil, err // conditions that it cut off are not judged
	}
	g.decided(c, target, decision, explained...)
	switch decision.Effect {
	case Allow:
		return g.pass(ctx, c, next, target, roundOf(c), "")
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

// notWithThese is the error for a call that is denied only because of its arguments. Since
// lists show its target to the caller, there is nothing to hide except the rules.
func notWithThese(c *mcp.Call, unfit error) error {
	message := "Not allowed with these arguments: " + c.Name
	if unfit != nil {
		message += ": " + unfit.Error()
	}
	return mcp.Errorf(failure.ArgumentsDenied, "%s", message).
		WithData(mcp.Object("reason", mcp.String("arguments"), "retryable", mcp.Raw("false"), "executed",
			mcp.String(string(mcp.ExecutedNo))))
}

// decided counts a decision, and reports it to the observer of the call.
func (g *Guard) decided(c *mcp.Call, target mcp.Target, d Decision, explained ...string) {
	g.metrics.decided(d.Effect)
	c.Verdict.Decided(mcp.Verdict{Target: target, Effect: d.Effect.String(), Rule: d.Rule, Explained: explained})
}

// withoutAsking serves the methods of skills, for which stateless clients cannot be asked. A
// list entry and the names in a directory need no approval, since lists show as much. The
// text of a skill does.
func (g *Guard) withoutAsking(ctx context.Context, c *mcp.Call, next mcp.Handler, target mcp.Target,
	d Decision) (*mcp.Reply, error) {
	_, byURI := mcp.SkillKey(c.Params)
	if c.Method == mcp.MethodDirectoryRead || byURI {
		inner := g.bare(c)
		inner.Target = target
		return next.Handle(ctx, inner)
	}
	if c.Ephemeral && d.asksUser() {
		return refuse(failure.ApprovalImpossible,
			"This skill needs the user's approval, for which skills/get cannot ask in this protocol revision: read its "+
				mcp.SkillFile+" by resources/read.", "cannot_ask")
	}
	return g.approve(ctx, c, next, target, d)
}

// Sees reports whether the caller of a call may know of the thing with a public name or URI,
// as lists decide it.
func (g *Guard) Sees(ctx context.Context, c *mcp.Call, kind, public string) bool {
	target, ok := c.Lens.Now().Target(ctx, kind, public)
	return ok && g.policy.Visible(&c.Caller, target)
}

// SeesAll reports whether a caller may know of everything.
func (g *Guard) SeesAll(caller *mcp.Caller) bool { return g.policy.openTo(caller) }

// unknown lets the catalog answer for a name that it does not know. It sets a target that the
// catalog cannot have, so that the name stays unknown even if it appears in the meantime.
func (g *Guard) unknown(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	inner := g.bare(c)
	if err := ctx.Err(); err != nil {
		return nil, err // it was looked for until then
	}
	g.metrics.unknown.Inc()
	c.Verdict.Decided(mcp.Verdict{Effect: "unknown"})
	inner.Target = mcp.Target{Kind: c.Kind()}
	if mcp.IsTaskMethod(c.Method) {
		inner.Visible = g.policy.upstreams(&c.Caller)
	}
	return next.Handle(ctx, inner)
}

// task lets a caller follow a task as long as they may see the tool that made it: the call
// itself, with its arguments and approval, was decided when it was made. A caller who may not
// see the tool any more gets the answer for a task that does not exist; the task keeps
// running.
func (g *Guard) task(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	target, ok := c.Lens.Target(ctx, mcp.KindTask, c.Name)
	if !ok || !g.policy.Visible(&c.Caller, target) {
		return g.unknown(ctx, c, next)
	}
	return g.pass(ctx, c, next, target, roundOf(c), "")
}

// mayFollow reports whether the caller may hear of a task.
func (g *Guard) mayFollow(ctx context.Context, c *mcp.Call, id string) bool {
	target, ok := c.Lens.Target(ctx, mcp.KindTask, id)
	return ok && g.policy.Visible(&c.Caller, target)
}

// Holds returns nil if the decision on a call holds for arguments that the gateway has changed: the
// changed call is allowed, or all rules that ask about it have asked about the call. Otherwise it
// returns the error. Both calls have a target.
func (g *Guard) Holds(ctx context.Context, before, after *mcp.Call) error {
	var tallies [2]tally
	var unfit error
	for i, c := range []*mcp.Call{before, after} {
		given, err := argumentsOf(c)
		if err != nil {
			return err
		}
		who := g.policy.subjectOf(&c.Caller)
		var judged *arguments
		tallies[i], judged = g.policy.weigh(ctx, who, g.policy.partialFor(who, c.Target), c.Target, given, c)
		unfit = judged.unfit
	}
	if err := ctx.Err(); err != nil {
		return err // conditions that it cut off are not judged
	}
	was, now := tallies[0].decision().Effect, tallies[1].decision().Effect
	if now == Allow || now == Ask && was == Ask && tallies[0].asked(&tallies[1]) {
		return nil
	}
	g.metrics.decided(Deny)
	return notWithThese(after, unfit)
}

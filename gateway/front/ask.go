package front

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// maxRounds is how often one call may come back with a question.
	maxRounds = 100
	// maxEmptyRounds is how many rounds in a row may only ask the client to come back later.
	// emptyWait is the wait after the first of them.
	maxEmptyRounds = 3
	emptyWait      = 500 * time.Millisecond
)

// rounds makes the call of a stateful client again until it comes back without a question.
type rounds struct {
	*exchange
	urls  opened
	empty int // rounds before this one, in a row, that asked nothing
}

// unasked is why a question cannot be put to the client.
type unasked string

func (u unasked) Error() string { return string(u) }

// run makes the rounds, each as the caller whose token came with the answers, so that a loss of
// rights takes effect at once. None is made for a caller whose proof has expired.
func (r *rounds) run(ctx context.Context) (*mcp.Reply, error) {
	call, v := &r.call, &r.verdict
	var asked *mcp.Ask
	for round := 1; ; round++ {
		reached := v.Reached
		reply, err := r.handler.Handle(ctx, call)
		if err != nil && v.Reached == reached { // the answers did not come to whom they are for
			asked.Dropped(r.whyEnded(ctx, err))
		}
		if round > 1 && mcp.FailureOf(err) == failure.StateInvalid { // its client knows of no state
			err = refuse.TooLateError(cmp.Or(v.Executed, mcp.ExecutedNo))
		}
		if err != nil || reply == nil || reply.Ask == nil {
			r.tellDone(nil)
			return reply, err
		}
		asked = reply.Ask
		r.tellDone(asked.Requests)
		if asked.Restart {
			return r.notAsked(r.urlRequired(asked.Requests))
		}
		got := live.NewAnswers(asked.Here)
		if round == maxRounds {
			err = mcp.Errorf(failure.EndlessQuestions, "the server asked %d times without an end", maxRounds)
		} else {
			waiting, since := call.Trail.Begin("user", ""), time.Now()
			err = r.settle(ctx, asked, got)
			waiting.End("")
			v.Waited += time.Since(since)
		}
		r.call.Trail.NextRound()
		next := call.Clone()
		next.Round, next.Answers, next.Refused = asked.Round, got.Given, got.Refused
		if got.From != nil {
			next.Caller = *got.From
			ctx = mcp.WithCaller(ctx, next.Caller)
		}
		if err == nil && live.Expired(next.Caller) {
			err = refuse.ExpiredError()
		}
		if err != nil {
			asked.Dropped(r.whyEnded(ctx, err))
			return r.notAsked(err)
		}
		call = next
	}
}

// notAsked ends the call whose client cannot be asked: with what the model can react to.
func (r *rounds) notAsked(err error) (*mcp.Reply, error) {
	why, ok := errors.AsType[unasked](err)
	if !ok {
		return nil, err
	}
	e := mcp.Errorf(failure.QuestionImpossible, "%s", why)
	e.AsResult = true
	return nil, e
}

// whyEnded says, for a server and for the record, why a call ends with err before its answer.
func (x *exchange) whyEnded(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	if said, ok := errors.AsType[mcp.CancelReason](cause); ok {
		return "the client cancelled the call: " + string(said)
	}
	for _, end := range [...]struct {
		cause error
		why   string
	}{
		{live.ErrCancelled, "the client cancelled the call"},
		{live.ErrEnded, "the session has ended"},
		{live.ErrMoved, "another replica of the gateway has the session"},
		{live.ErrClosing, "the gateway is stopping"},
	} {
		if errors.Is(cause, end.cause) {
			return end.why
		}
	}
	switch e, ok := errors.AsType[*mcp.Error](err); {
	case ctx.Err() != nil:
		return "the client has left"
	case ok:
		return e.Message
	}
	return err.Error()
}

// settle finds the answers to the questions of a round: it puts to the client what only the
// client can answer. It fails with unasked for a question that must be asked and cannot be.
func (r *rounds) settle(ctx context.Context, asked *mcp.Ask, got *live.Answers) error {
	if len(asked.Requests) == 0 { // the server asks only for time
		if r.empty++; r.empty > maxEmptyRounds {
			return mcp.Errorf(failure.EndlessQuestions, "the server asks to try again, and again: it may be overloaded")
		}
		return sleep(ctx, emptyWait<<(r.empty-1))
	}
	r.empty = 0
	if !mcp.CanAskInSession(r.call.Method) {
		return unasked("the server asked for input, which is not possible in " + r.call.Method)
	}
	var open []mcp.InputRequest
	waiting := false
	for _, q := range asked.Requests {
		if _, ok := declared(r.call.Caps, q); !ok {
			return unasked("the server needs input by " + q.Method + ", which this client did not declare as it would have to")
		}
		if roots := r.live.Roots(); roots != nil && q.Method == mcp.MethodRootsList {
			got.Given[q.Key] = roots
			continue
		}
		if !asked.Here && hasURL(r.urls.requests, urlOf(q)) { // the user has agreed, and is at the URL or was there
			got.Given[q.Key] = mcp.Raw(`{"action":"accept"}`)
			waiting = true
			continue
		}
		params, err := r.rev.Ask(q.Method, q.Params)
		if err != nil {
			got.Refuse(q, mcp.Errorf(failure.QuestionImpossible, "the client cannot be asked this: %v", err).WithCode(mcp.CodeInvalidParams))
			continue
		}
		q.Params = withID(r.rev, q, params)
		open = append(open, q)
	}
	if waiting {
		if !r.urls.wait(ctx, r.f.cfg.AskTimeout) {
			return r.urlRequired(r.urls.requests)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(open) == 0 {
		return nil
	}
	if why := r.cannotAsk(ctx); why != "" {
		if !asked.Here && r.rev.ElicitationIDs && !slices.ContainsFunc(open, func(q mcp.InputRequest) bool { return urlOf(q) == "" }) {
			return r.urlRequired(open) // the client can send the user there, and make the call again
		}
		if slices.ContainsFunc(open, func(q mcp.InputRequest) bool { return q.Method != mcp.MethodRootsList }) {
			return why
		}
		for _, q := range open { // a call can do without roots
			got.Refuse(q, mcp.Errorf(failure.QuestionImpossible, "%s", why))
		}
		return nil
	}
	err := r.running.Ask(ctx, r.exchange, r.call.Caps, open, askLimit(r.f.cfg.AskTimeout, asked.Expires), got)
	if err == live.ErrQuestions {
		r.f.deps.Metrics.reached(refuse.BoundQuestions)
	}
	if err == nil && !asked.Here {
		r.urls.add(open, got.Given)
	}
	return err
}

// sleep waits. It returns the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askLimit is how long a client may take to answer.
func askLimit(limit time.Duration, expires time.Time) time.Duration {
	if expires.IsZero() {
		return limit
	}
	return min(limit, time.Until(expires))
}

// cannotAsk returns why this client cannot be asked anything now, "" if it can.
func (r *rounds) cannotAsk(ctx context.Context) unasked {
	if !r.accept.stream {
		return "the server needs input, but this client accepts no event stream to ask it on"
	}
	if !session.Of(r.home).Initialized {
		return "the server needs input, but this client has not sent notifications/initialized"
	}
	return ""
}

// toModel returns the text of an error that the caller of a tool gets as a result, "" for others:
// what a model can act on, and what a stateful client would have to declare, since it does not know
// the error that stateless clients get.
func (x *exchange) toModel(err error) string {
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case !ok || x.call.Method != mcp.MethodToolsCall:
		return ""
	case e.AsResult:
		return e.Message
	case e.Code != mcp.CodeMissingCapability || !x.rev.Stateful:
		return ""
	}
	var names []string
	e.Data.At("requiredCapabilities").Each(func(name string, _ mcp.Raw) bool {
		names = append(names, name)
		return len(names) < live.MaxQuestions
	})
	return "This tool needs what this client does not offer to servers: " + strings.Join(names, ", ")
}

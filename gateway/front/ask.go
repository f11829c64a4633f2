package front

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// maxRounds is how often one call may come back with a question.
	maxRounds = 100
	// maxEmptyRounds is how many of them in a row may ask for nothing but patience,
	// and emptyWait how long the first of them is waited for.
	maxEmptyRounds = 3
	emptyWait      = 500 * time.Millisecond
)

// rounds makes the call of a stateful client until it comes back with no question. Each
// round is made by whom the answers came from, as their token says it: what the user
// lost in the meantime holds at once. Without an answer it is still whoever made the
// call, and there is no further round once their proof has expired.
func (x *exchange) rounds(ctx context.Context) (*mcp.Reply, error) {
	call := &x.call
	empty := 0
	var urls opened
	for round := 1; ; round++ {
		reply, err := x.handler.Handle(ctx, call)
		if err != nil || reply == nil || reply.Ask == nil {
			x.tellDone(urls.done(nil))
			return reply, err
		}
		asked := reply.Ask
		x.tellDone(urls.done(asked.Requests))
		next := call.Clone()
		next.State, next.Answers, next.Refused = asked.State, nil, nil
		var got answers
		switch {
		case asked.Anew:
			return x.urlRequired(asked.Requests)
		case round == maxRounds:
			err = mcp.Errorf(mcp.CodeInternal, "the server asked %d times without an end", maxRounds)
		case len(asked.Requests) == 0:
			empty++
			err = patience(ctx, empty)
		default:
			empty = 0
			var why string
			if got, why, err = x.settle(ctx, asked, &urls); why != "" {
				x.letGo(ctx, asked)
				return x.unasked(why)
			}
			next.Answers, next.Refused = got.given, got.refused
		}
		if got.from != nil {
			next.Caller = *got.from
			ctx = mcp.WithCaller(ctx, next.Caller)
		}
		if err == nil && expired(next.Caller) {
			err = refuse.ExpiredError()
		}
		if err != nil {
			x.letGo(ctx, asked)
			return nil, err
		}
		call = next
	}
}

// patience waits before a call is made again whose server asks for nothing else. It
// is the nth time in a row.
func patience(ctx context.Context, n int) error {
	if n > maxEmptyRounds {
		return mcp.Errorf(mcp.CodeInternal, "the server asks to try again, and again: it may be overloaded")
	}
	timer := time.NewTimer(emptyWait << (n - 1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// letGo tells whoever has put the call aside for a question that nobody will come
// back for it, or it would wait there for its time limit. The call is made once more
// and cancelled at once, with each question refused: what has been put aside is taken
// up by that, and ends as any call that is cancelled.
func (x *exchange) letGo(ctx context.Context, asked *mcp.Ask) {
	if !asked.Here && !asked.Kept {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(errCancelled)
	last := x.call.Clone()
	last.State, last.Answers = asked.State, nil
	last.Refused = make(map[string]*mcp.Error, len(asked.Requests))
	for _, q := range asked.Requests {
		last.Refused[q.Key] = mcp.Errorf(mcp.CodeInternal, "the call is over: there will be no answer")
	}
	last.Notify = func(mcp.Event) {} // its client hears no more of it
	_, _ = x.handler.Handle(ctx, last)
}

// settle finds the answers to the questions of a round: it puts to the client what only
// that can answer. why says that it cannot be asked what it would have to be.
func (x *exchange) settle(ctx context.Context, asked *mcp.Ask, urls *opened) (got answers, why string, err error) {
	if !mcp.CanAskInSession(x.call.Method) {
		return got, "the server asked for input, which is not possible in " + x.call.Method, nil
	}
	got = answers{given: make(map[string]mcp.Raw), refused: make(map[string]*mcp.Error), here: asked.Here}
	var open []mcp.InputRequest
	waiting, onlyRoots := false, true
	for _, q := range asked.Requests {
		if _, ok := declared(x.call.Caps, q); !ok {
			return got, "the server needs input by " + q.Method + ", which this client did not declare as it would have to", nil
		}
		if roots := x.live.knownRoots(); roots != nil && q.Method == mcp.MethodRootsList {
			got.given[q.Key] = roots
			continue
		}
		if !asked.Here && urls.has(q) { // the user has agreed and is there, or was
			got.given[q.Key] = mcp.Raw(`{"action":"accept"}`)
			waiting = true
			continue
		}
		params, err := x.rev.Ask(q.Method, q.Params)
		if err != nil {
			got.refuse(q, mcp.Errorf(mcp.CodeInvalidParams, "the client cannot be asked this: %v", err))
			continue
		}
		q.Params = x.withID(q, params)
		open = append(open, q)
		onlyRoots = onlyRoots && q.Method == mcp.MethodRootsList
	}
	if waiting {
		if !urls.wait(ctx, x.f.cfg.AskTimeout) {
			_, err := x.urlRequired(urls.requests)
			return got, "", err
		}
		if ctx.Err() != nil {
			return got, "", ctx.Err()
		}
	}
	if len(open) == 0 {
		return got, "", nil
	}
	if why := x.cannotAsk(ctx); why != "" {
		if !onlyRoots {
			return got, why, nil
		}
		for _, q := range open { // a call can do without
			got.refuse(q, mcp.Errorf(mcp.CodeInternal, "%s", why))
		}
		return got, "", nil
	}
	err = x.ask(ctx, open, askLimit(x.f.cfg.AskTimeout, asked.Expires), &got)
	if err == nil && !asked.Here {
		urls.add(open, got.given)
	}
	return got, "", err
}

// askLimit is how long a client may take to answer.
func askLimit(limit time.Duration, expires time.Time) time.Duration {
	if expires.IsZero() {
		return limit
	}
	return min(limit, time.Until(expires))
}

// cannotAsk says why this client cannot be asked anything now, "" if it can.
func (x *exchange) cannotAsk(ctx context.Context) string {
	if !x.accept.stream {
		return "the server needs input, but this client accepts no event stream to ask it on"
	}
	r, err := x.f.sessions.Get(ctx, x.record.User, x.record.ID)
	if err == nil && !r.Initialized {
		return "the server needs input, but this client has not sent notifications/initialized"
	}
	return ""
}

// unasked is how a call ends whose question cannot be put to the client.
func (x *exchange) unasked(why string) (*mcp.Reply, error) {
	if x.call.Method == mcp.MethodToolsCall {
		return &mcp.Reply{Result: isErrorResult(why)}, nil
	}
	return nil, mcp.Errorf(mcp.CodeInternal, "%s", why)
}

// lacks says, for the error that only stateless clients know, what a stateful one would
// have to declare for a tool; "" for all else. A model can react to the result of a tool.
func (x *exchange) lacks(err error) string {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != mcp.CodeMissingCapability || !x.rev.Stateful || x.call.Method != mcp.MethodToolsCall {
		return ""
	}
	var names []string
	required, _ := e.Data.Member("requiredCapabilities")
	required.Each(func(name string, _ mcp.Raw) bool {
		names = append(names, name)
		return len(names) < maxAsked
	})
	return "This tool needs what this client does not offer to servers: " + strings.Join(names, ", ")
}

package front

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// maxRounds is how often one call may come back with a question.
	maxRounds = 100
	// maxEmptyRounds is how many of them in a row may ask for nothing but patience,
	// and emptyWait how long the first of them is waited for.
	maxEmptyRounds = 3
	emptyWait      = 500 * time.Millisecond
	// maxAsked bounds the questions that wait for their answers in a session.
	maxAsked = 64
)

// question is a request to the client that waits for its answer.
type question struct {
	id      mcp.Raw
	key     string // of the InputRequest
	method  string // likewise
	answers chan<- answer
}

type answer struct {
	*question
	result mcp.Raw
	err    *mcp.Error
	from   mcp.Caller
}

// answers are what the client said to the questions of one round.
type answers struct {
	given   map[string]mcp.Raw
	refused map[string]*mcp.Error
	from    *mcp.Caller // of the last answer; nil for none
}

// rounds makes the call of a stateful client until it comes back with no question. Each
// round is made by whom the answers came from, as their token says it: what the user
// lost in the meantime holds at once. Without an answer it is still whoever made the
// call, and there is no further round once their proof has expired.
func (x *exchange) rounds(ctx context.Context) (*mcp.Reply, error) {
	call := &x.call
	empty := 0
	for round := 1; ; round++ {
		reply, err := x.handler.Handle(ctx, call)
		if err != nil || reply == nil || reply.Ask == nil {
			return reply, err
		}
		asked := reply.Ask
		next := call.Clone()
		next.State, next.Answers, next.Refused = asked.State, nil, nil
		var got answers
		switch {
		case round == maxRounds:
			err = mcp.Errorf(mcp.CodeInternal, "the server asked %d times without an end", maxRounds)
		case len(asked.Requests) == 0:
			empty++
			err = patience(ctx, empty)
		default:
			empty = 0
			if why := x.cannotAsk(ctx, asked.Requests); why != "" {
				x.letGo(ctx, asked)
				return x.unasked(why)
			}
			got, err = x.ask(ctx, asked)
			next.Answers, next.Refused = got.given, got.refused
		}
		if got.from != nil {
			next.Caller = *got.from
			ctx = mcp.WithCaller(ctx, next.Caller)
		}
		if err == nil && expired(next.Caller) {
			err = expiredError()
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
	if !asked.Here {
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

// cannotAsk says why this client cannot be asked this, "" if it can.
func (x *exchange) cannotAsk(ctx context.Context, requests []mcp.InputRequest) string {
	if !mcp.CanAsk(x.call.Method) {
		return "the server asked for input, which is not possible in " + x.call.Method
	}
	if !x.accept.stream {
		return "the server needs input, but this client accepts no event stream to ask it on"
	}
	for _, q := range requests {
		if _, ok := declared(x.call.Caps, q); !ok {
			return "the server needs input by " + q.Method + ", which this client did not declare as it would have to"
		}
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

// ask sends the requests on the call's own stream, under ids that were never used
// before, and waits for the answers. What the client does not answer in time counts
// as refused, so that the server can bring its call to an end.
func (x *exchange) ask(ctx context.Context, asked *mcp.Ask) (got answers, err error) {
	incoming := make(chan answer, len(asked.Requests)) // each question is answered once
	open := make(map[*question]struct{}, len(asked.Requests))
	defer func() { x.live.withdraw(open) }()
	for _, r := range asked.Requests {
		q := &question{id: mcp.String("gatehouse-" + x.f.callID()), key: r.Key, method: r.Method, answers: incoming}
		if !x.live.expect(q) {
			return got, mcp.Errorf(mcp.CodeOverloaded, "too many questions wait for this client: let it answer some first")
		}
		open[q] = struct{}{}
		if !x.request(q.id, r) {
			return got, errNoReply // the exchange is over
		}
	}
	timeout := time.NewTimer(x.f.cfg.AskTimeout)
	defer timeout.Stop()
	got.given, got.refused = make(map[string]mcp.Raw), make(map[string]*mcp.Error)
	refuse := func(q *question, e *mcp.Error) {
		if q.method == mcp.MethodElicit && !asked.Here {
			// A server that keeps no call open can be told no error, but this it can.
			got.given[q.key] = mcp.Raw(`{"action":"cancel"}`)
			return
		}
		got.refused[q.key] = e
	}
	for len(open) > 0 {
		select {
		case a := <-incoming:
			delete(open, a.question)
			got.from = &a.from
			if a.err != nil {
				refuse(a.question, a.err)
			} else {
				got.given[a.key] = a.result
			}
		case <-timeout.C:
			for q := range open {
				refuse(q, mcp.Errorf(mcp.CodeInternal, "the client did not answer in time"))
				x.withdrawn(q.id)
			}
			return got, nil
		case <-ctx.Done():
			return got, ctx.Err()
		}
	}
	return got, nil
}

// request sends a request to the client.
func (x *exchange) request(id mcp.Raw, r mcp.InputRequest) bool {
	data := wire.AppendRequest(nil, id, r.Method, r.Params)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needStream() == nil {
		return false
	}
	x.send(data)
	return true
}

// withdrawn tells the client that a question needs no answer any more.
func (x *exchange) withdrawn(id mcp.Raw) {
	params := mcp.Object("requestId", id, "reason", mcp.String("no answer in time"))
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.needStream() != nil {
		x.send(wire.AppendNotification(nil, mcp.NoteCancelled, params))
	}
}

// expect waits for the answer to a question; false when the session has ended or
// waits for too many.
func (l *live) expect(q *question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.asked) >= maxAsked {
		return false
	}
	l.asked[string(q.id)] = q
	return true
}

func (l *live) withdraw(open map[*question]struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q := range open {
		delete(l.asked, string(q.id))
	}
}

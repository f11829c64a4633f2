package exchange

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// maxRounds bounds the rounds of questions of one call.
	maxRounds = 100
	// maxEmptyRounds bounds the rounds in a row that only ask the client to come back later.
	// emptyWait is the wait after the first of them.
	maxEmptyRounds = 3
	emptyWait      = 500 * time.Millisecond
)

// rounds repeats the call of a stateful client until it ends without a question.
type rounds struct {
	*Exchange
	urls  opened
	empty int // rounds before this one, in a row, that asked nothing
}

// unasked is the error of a call when its client cannot be asked: the model can react to it.
func unasked(why string) error {
	e := mcp.Errorf(failure.QuestionImpossible, "%s", why)
	e.AsResult = true
	return e
}

// run makes the rounds. Each is as the caller of the token that came with the answers, so that a
// loss of rights takes effect at once. None is made for a caller with an expired proof.
func (r *rounds) run(ctx context.Context) (*mcp.Reply, error) {
	call, v := &r.Call, &r.verdict
	var asked *mcp.Ask
	for round := 1; ; round++ {
		reached := v.Reached
		reply, err := r.Handler.Handle(ctx, call)
		if err != nil && v.Reached == reached { // the answers did not reach their server
			asked.Dropped(whyEnded(ctx, err))
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
			return nil, r.urlRequired(asked.Requests)
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
		r.Call.Trail.NextRound()
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
			asked.Dropped(whyEnded(ctx, err))
			return nil, err
		}
		call = next
	}
}

// whyEnded returns the reason, for a server and for the record, why a call ends with err before its answer.
func whyEnded(ctx context.Context, err error) string {
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
// client can answer. It fails as unasked says for a question that must be asked and cannot be.
func (r *rounds) settle(ctx context.Context, asked *mcp.Ask, got *live.Answers) error {
	if len(asked.Requests) == 0 { // the server asks only for time
		if r.empty++; r.empty > maxEmptyRounds {
			return mcp.Errorf(failure.EndlessQuestions, "the server asks to try again, and again: it may be overloaded")
		}
		return sleep(ctx, emptyWait<<(r.empty-1))
	}
	r.empty = 0
	if !mcp.CanAskInSession(r.Call.Method) {
		return unasked("the server asked for input, which is not possible in " + r.Call.Method)
	}
	var open []mcp.InputRequest
	waiting := false
	for _, q := range asked.Requests {
		if _, ok := declared(r.Call.Caps, q); !ok {
			return unasked("the server needs input by " + q.Method + ", which this client did not declare as it would have to")
		}
		if roots := r.Live.Roots(); roots != nil && q.Method == mcp.MethodRootsList {
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
			got.Refuse(q, mcp.Errorf(failure.QuestionImpossible, "the client cannot be asked this: %v",
				err).WithCode(mcp.CodeInvalidParams))
			continue
		}
		q.Params = withID(r.rev, q, params)
		open = append(open, q)
	}
	if waiting {
		if !r.urls.wait(ctx, r.e.AskTimeout) {
			return r.urlRequired(r.urls.requests)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(open) == 0 {
		return nil
	}
	if why := r.cannotAsk(); why != "" {
		if !asked.Here && r.rev.ElicitationIDs && !slices.ContainsFunc(open,
			func(q mcp.InputRequest) bool { return urlOf(q) == "" }) {
			return r.urlRequired(open) // the client can send the user there, and make the call again
		}
		if slices.ContainsFunc(open, func(q mcp.InputRequest) bool { return q.Method != mcp.MethodRootsList }) {
			return unasked(why)
		}
		for _, q := range open { // a call can do without roots
			got.Refuse(q, mcp.Errorf(failure.QuestionImpossible, "%s", why))
		}
		return nil
	}
	err := r.Running.Ask(ctx, r.Exchange, r.Call.Caps, open, askLimit(r.e.AskTimeout, asked.Expires), got)
	if err == live.ErrQuestions {
		r.e.Metrics.Reached(refuse.BoundQuestions)
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

// askLimit returns the time that a client has to answer.
func askLimit(limit time.Duration, expires time.Time) time.Duration {
	if expires.IsZero() {
		return limit
	}
	return min(limit, time.Until(expires))
}

// cannotAsk returns why this client cannot be asked anything now, "" if it can.
func (r *rounds) cannotAsk() string {
	if !r.accept.Stream {
		return "the server needs input, but this client accepts no event stream to ask it on"
	}
	if !session.Of(r.Home).Initialized {
		return "the server needs input, but this client has not sent notifications/initialized"
	}
	return ""
}

// A server of 2026-07-28 that sent the user to a URL asks again until the user is done there. A
// client of 2025-11-25 would pass that on each time; instead, the gateway tells it the id of the
// question when the user is done.

const (
	// firstLook and lastLook are the first and the longest wait before the server is asked
	// again whether the user is done.
	firstLook = time.Second
	lastLook  = 15 * time.Second
)

// opened are the URLs of one call that the user has agreed to visit.
type opened struct {
	requests []mcp.InputRequest // as they were put to the client
	since    time.Time          // when the user last agreed to one
	looks    int                // since then
}

func urlOf(q mcp.InputRequest) string {
	if q.Method != mcp.MethodElicit || !wire.IsURLMode(q.Params) {
		return ""
	}
	return q.Params.At("url").Text()
}

func hasURL(requests []mcp.InputRequest, url string) bool {
	return url != "" && slices.ContainsFunc(requests, func(q mcp.InputRequest) bool { return urlOf(q) == url })
}

// add adds the questions that were answered with yes.
func (o *opened) add(put []mcp.InputRequest, given map[string]mcp.Raw) {
	for _, q := range put {
		if urlOf(q) != "" && given[q.Key].At("action").Text() == "accept" {
			o.requests = append(o.requests, q)
			o.since, o.looks = time.Now(), 0
		}
	}
}

// wait waits before the server is asked again. It returns false if the user took longer than
// the limit.
func (o *opened) wait(ctx context.Context, limit time.Duration) bool {
	if time.Since(o.since) >= limit {
		return false
	}
	pause := min(firstLook<<min(o.looks, 4), lastLook)
	o.looks++
	_ = sleep(ctx, pause) // the caller checks ctx
	return true
}

// withID adds the id that this revision requires to a question that sends the user to a URL,
// unless it has one.
func withID(rev *wire.Revision, q mcp.InputRequest, params mcp.Raw) mcp.Raw {
	if !rev.ElicitationIDs || urlOf(q) == "" {
		return params
	}
	if _, ok := params.Member("elicitationId"); ok {
		return params
	}
	return params.With("elicitationId", mcp.String("e-"+strings.ToLower(rand.Text())))
}

// tellDone tells the client that the user is done at the URLs that the server does not ask for
// any more.
func (r *rounds) tellDone(asked []mcp.InputRequest) {
	r.urls.requests = slices.DeleteFunc(r.urls.requests, func(q mcp.InputRequest) bool {
		if hasURL(asked, urlOf(q)) {
			return false
		}
		if id, ok := q.Params.Member("elicitationId"); ok {
			r.notify(mcp.Event{Method: mcp.NoteElicitationComplete, Params: mcp.Object("elicitationId", id)})
		}
		return true
	})
}

// urlRequired is URLElicitationRequiredError (2025-11-25 client/elicitation): the call can be
// made again when the user is done at these URLs.
func (r *rounds) urlRequired(requests []mcp.InputRequest) error {
	var list []mcp.Raw
	for _, q := range requests {
		params, err := r.rev.Ask(q.Method, q.Params)
		if _, ok := declared(r.Call.Caps, q); !ok || err != nil || !r.rev.ElicitationIDs {
			return unasked("the server needs the user to open a page first, and this client cannot be asked to do that")
		}
		list = append(list, withID(r.rev, q, params))
	}
	return mcp.Errorf(failure.URLNeeded, "The user has to open a page before this request can be made").
		WithData(mcp.Object("elicitations", mcp.Array(list...)))
}

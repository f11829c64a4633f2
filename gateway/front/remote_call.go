package front

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

const (
	// beatTime is how often a replica that serves a call of another one says so, and
	// lostTime how long it may be silent before the other one takes the call for lost.
	beatTime = 5 * time.Second
	lostTime = 20 * time.Second
	// lastWords is how long a reply may still be under way when its replica has gone: a large
	// one is fetched apart.
	lastWords = time.Second
	// maxRemote bounds the calls of other replicas that are served here at a time.
	maxRemote = 10_000
	// maxRemoteEvents bounds the events of a call that wait here; more are dropped, as
	// progress may be.
	maxRemoteEvents = 256
)

// remoteCall is an mcp.Call for another replica.
type remoteCall struct {
	ID           string                  `json:"id"`
	Method       string                  `json:"method"`
	Name         string                  `json:"name,omitempty"`
	Params       []byte                  `json:"params,omitempty"`
	Session      string                  `json:"session,omitempty"`
	Ephemeral    bool                    `json:"ephemeral,omitempty"`
	Caps         []byte                  `json:"caps,omitempty"`
	LogLevel     string                  `json:"logLevel,omitempty"`
	ParamHeaders map[string]string       `json:"paramHeaders,omitempty"`
	Tasks        mcp.TaskForm            `json:"tasks,omitempty"`
	Task         []byte                  `json:"task,omitempty"`
	Answers      map[string][]byte       `json:"answers,omitempty"`
	Refused      map[string]*remoteError `json:"refused,omitempty"`
	State        string                  `json:"state,omitempty"`
}

type remoteError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    []byte `json:"data,omitempty"`
}

// remoteReply is an mcp.Reply, or an error, of another replica.
type remoteReply struct {
	Result []byte       `json:"result,omitempty"`
	Ask    *remoteAsk   `json:"ask,omitempty"`
	Task   bool         `json:"task,omitempty"`
	Error  *remoteError `json:"error,omitempty"` // Code 0 for one that is not the client's to read
	Gone   bool         `json:"gone,omitempty"`  // ErrNotThere
}

type remoteAsk struct {
	Requests   []remoteQuestion `json:"requests,omitempty"`
	State      string           `json:"state,omitempty"`
	Here, Kept bool             `json:",omitempty"`
	Anew       bool             `json:",omitempty"`
	Routed     bool             `json:",omitempty"`
	Expires    time.Time        `json:"expires,omitzero"`
}

type remoteQuestion struct {
	Key    string `json:"key"`
	Method string `json:"method"`
	Params []byte `json:"params,omitempty"`
}

// errLost: the replica where a call waited has gone.
var errLost = errors.New("front: another replica does not answer")

// elsewhere is the handler of calls that only another replica can continue: a question of
// theirs waits there.
type elsewhere struct {
	f       *Front
	replica string
}

// pending is what this replica waits for another one to say of a call, an answer, or a
// message that it has sent there.
type pending struct {
	events chan letter // of a call: that it has begun, and its events; what finds no room is dropped
	reply  chan letter // holds one: the last word
	// broken, of a call whose events must not be lost, takes that one was; nil for others
	broken chan struct{}
}

// lose notes that an event may have been lost.
func (p *pending) lose() {
	select {
	case p.broken <- struct{}{}:
	default: // it is known, or does not matter
	}
}

// Handle has the call made there, and relays what happens.
func (e elsewhere) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	out := letter{Kind: mailCall, Number: e.f.callID(), Caller: e.f.carry(c.Caller), Call: writeCall(c)}
	if ctx.Err() != nil { // only to be let go
		out.Stopped = true
		e.f.bringAside(e.replica, out)
		return nil, context.Cause(ctx)
	}
	p := &pending{events: make(chan letter, maxRemoteEvents), reply: make(chan letter, 1)}
	defer e.f.expectFrom(out.Number, p)()
	gone, unwatch := e.f.mail.Watch(e.replica)
	defer unwatch()
	// One that may arrive is waited for like one that has: the call may run. Where nobody
	// listens it is known soon whether the replica has gone.
	if err := e.f.send(ctx, e.replica, out); err != nil && !errors.Is(err, session.ErrUnsure) && !errors.Is(err, session.ErrNobody) {
		return nil, refuse.StoreError()
	}
	reply, err := p.wait(ctx, c, gone)
	if err != nil && ctx.Err() != nil {
		e.f.bringAside(e.replica, letter{Kind: mailDrop, Number: out.Number})
	}
	if errors.Is(err, errLost) {
		return nil, refuse.LostError()
	}
	return reply, err
}

// expectFrom has p take what another replica says of the call, answer or message with this
// number, until stop.
func (f *Front) expectFrom(number string, p *pending) (stop func()) {
	f.mu.Lock()
	f.pending[number] = p
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		delete(f.pending, number)
		f.mu.Unlock()
	}
}

// wait returns with the reply, or when there will be none. gone tells that the other
// replica has gone.
func (p *pending) wait(ctx context.Context, c *mcp.Call, gone <-chan struct{}) (*mcp.Reply, error) {
	lost := time.NewTimer(lostTime)
	defer lost.Stop()
	var late <-chan time.Time // too late for last words
	relay := func(l letter) {
		lost.Reset(lostTime)
		l.notify(c)
	}
	for {
		select {
		case l := <-p.events:
			relay(l)
		case l := <-p.reply:
			for len(p.events) > 0 { // they came before it
				relay(<-p.events)
			}
			return l.Reply.read()
		case <-lost.C:
			return nil, errLost
		case <-p.broken:
			return nil, errLost
		case <-gone:
			if p.broken != nil && len(p.reply) == 0 { // the sooner it is made again the better
				return nil, errLost
			}
			gone, late = nil, time.After(lastWords)
		case <-late:
			if len(p.reply) > 0 {
				continue
			}
			return nil, errLost
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// notify passes the events of a call on.
func (l letter) notify(c *mcp.Call) {
	for _, e := range l.Events {
		c.Notify(mcp.Event{Method: e.Method, Params: e.Params})
	}
}

// returned takes what another replica says of something that this one has sent there.
func (f *Front) returned(l letter) {
	f.mu.Lock()
	p := f.pending[l.Number]
	f.mu.Unlock()
	if p == nil {
		if l.Kind == mailBegan { // its caller has left before the call could be found there
			f.apart(func(ctx context.Context) { f.tell(ctx, l.From, letter{Kind: mailDrop, Number: l.Number}) }) // again with the next beat
		}
		return
	}
	to := p.events
	if l.Kind == mailReply || l.Kind == mailTaken {
		to = p.reply
	}
	select {
	case to <- l:
	default:
		if l.Kind == mailEvent {
			p.lose()
		}
	}
}

// serveRemote makes a call for another replica, and tells it what happens.
func (f *Front) serveRemote(l letter) {
	if l.Call == nil || !isReplica(l.From) {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background()) // until the reply, dropRemote or Close
	key := l.From + " " + l.Number
	f.mu.Lock()
	_, twice := f.serving[key]
	closing := f.closing
	accepted := !twice && !closing && len(f.serving) < maxRemote
	if accepted {
		f.serving[key] = cancel
		f.running.Add(1)
		f.requests.Add(1)
	}
	f.mu.Unlock()
	if !accepted {
		cancel(nil)
		switch {
		case twice:
		case closing && l.Place != "":
			f.refuseRemote(l, &remoteReply{Gone: true})
		case closing: // and what waited here for the answer does not wait any more
			f.refuseRemote(l, writeReply(nil, refuse.LostError()))
		default:
			e := mcp.Errorf(mcp.CodeOverloaded, "too many calls of other replicas are served: try again")
			e.Data = refuse.Data(true, mcp.ExecutedNo)
			f.refuseRemote(l, writeReply(nil, e))
		}
		return
	}
	if l.Stopped {
		cancel(errCancelled)
	}
	go func() {
		defer f.done()
		defer cancel(nil)
		reply, release := f.makeRemote(ctx, cancel, l)
		f.mu.Lock()
		delete(f.serving, key) // first: the reply may be followed at once by the call's next round
		f.mu.Unlock()
		if !l.Stopped {
			f.bring(context.WithoutCancel(ctx), l.From, letter{Kind: mailReply, Number: l.Number, Reply: reply})
		}
		if release != nil {
			release()
		}
	}()
}

// refuseRemote says that a call is not served here. One that comes when the front has
// closed is told so, too: its caller would wait until this replica has gone, and not know
// whether it was made. Whoever hears the letters has nothing else to do by then.
func (f *Front) refuseRemote(l letter, reply *remoteReply) {
	say := func() {
		f.tell(context.Background(), l.From, letter{Kind: mailReply, Number: l.Number, Reply: reply})
	}
	if !f.beside(say) {
		say()
	}
}

// makeRemote makes a call, and tells its replica that it runs and what happens. After
// release, which may be nil, the memory of the reply is not its own any more. It cancels
// the call when that replica has gone, and the client's connection with it.
func (f *Front) makeRemote(ctx context.Context, cancel context.CancelCauseFunc, l letter) (reply *remoteReply, release func()) {
	out := context.WithoutCancel(ctx) // what is said of the call, each with Redis's own limits
	f.tell(out, l.From, letter{Kind: mailBegan, Number: l.Number})
	over := make(chan struct{})
	beats := make(chan struct{})
	gone, unwatch := f.mail.Watch(l.From)
	go func() {
		defer close(beats)
		defer unwatch()
		tick := time.NewTicker(beatTime)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f.tell(out, l.From, letter{Kind: mailBegan, Number: l.Number})
			case <-gone:
				cancel(errCancelled)
				return
			case <-over:
				return
			}
		}
	}()
	caller, err := f.callers.Read(l.Caller)
	if err != nil {
		f.log.Error("a call came from another replica without who makes it", "error", err)
		close(over)
		<-beats
		return writeReply(nil, errNoReply), nil
	}
	c := l.Call.read(caller)
	c.Notify = func(e mcp.Event) {
		told := f.tell(out, l.From, letter{Kind: mailEvent, Number: l.Number, Events: []remoteEvent{{e.Method, e.Params}}})
		if !told && c.Method == mcp.MethodListen {
			cancel(errLost) // whoever listens does it again rather than to miss anything
		}
	}
	made, err := f.handleRemote(mcp.WithCaller(ctx, c.Caller), c, l.Place)
	close(over)
	<-beats
	if made != nil {
		release = made.Release
	}
	return writeReply(made, err), release
}

// handleRemote makes the call: a panic in it ends that call only.
func (f *Front) handleRemote(ctx context.Context, c *mcp.Call, place string) (reply *mcp.Reply, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.recovered(cause, c.ID)
			reply, err = nil, errNoReply
		}
	}()
	if place != "" {
		return f.direct(ctx, place, c)
	}
	return f.handler.Handle(ctx, c)
}

// dropRemote cancels a call of another replica, whose caller has left.
func (f *Front) dropRemote(l letter) {
	f.mu.Lock()
	cancel := f.serving[l.From+" "+l.Number]
	f.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

func writeCall(c *mcp.Call) *remoteCall {
	r := &remoteCall{ID: c.ID, Method: c.Method, Name: c.Name, Params: c.Params, Session: c.Session, Ephemeral: c.Ephemeral, Caps: c.Caps,
		LogLevel: c.LogLevel, ParamHeaders: c.ParamHeaders, Tasks: c.Tasks, Task: c.Task, State: c.State}
	for key, answer := range c.Answers {
		if r.Answers == nil {
			r.Answers = make(map[string][]byte)
		}
		r.Answers[key] = answer
	}
	for key, e := range c.Refused {
		if r.Refused == nil {
			r.Refused = make(map[string]*remoteError)
		}
		r.Refused[key] = &remoteError{e.Code, e.Message, e.Data}
	}
	return r
}

func (r *remoteCall) read(caller mcp.Caller) *mcp.Call {
	c := &mcp.Call{ID: r.ID, Method: r.Method, Name: r.Name, Params: r.Params, Caller: caller, Session: r.Session, Ephemeral: r.Ephemeral, Caps: r.Caps,
		LogLevel: r.LogLevel, ParamHeaders: r.ParamHeaders, Tasks: r.Tasks, Task: r.Task, State: r.State}
	for key, answer := range r.Answers {
		if c.Answers == nil {
			c.Answers = make(map[string]mcp.Raw)
		}
		c.Answers[key] = answer
	}
	for key, e := range r.Refused {
		if c.Refused == nil {
			c.Refused = make(map[string]*mcp.Error)
		}
		c.Refused[key] = &mcp.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return c
}

// writeReply writes what came of a call. Calls that ask have no lists for replies, nor have
// those that are made in sessions of clients.
func writeReply(reply *mcp.Reply, err error) *remoteReply {
	e, readable := errors.AsType[*mcp.Error](err)
	switch {
	case readable:
		return &remoteReply{Error: &remoteError{e.Code, e.Message, e.Data}}
	case errors.Is(err, ErrNotThere):
		return &remoteReply{Gone: true}
	case err != nil || reply == nil || reply.List != nil:
		return &remoteReply{Error: &remoteError{}}
	}
	r := &remoteReply{Result: reply.Result, Task: reply.Task}
	if a := reply.Ask; a != nil {
		r.Ask = &remoteAsk{State: a.State, Here: a.Here, Kept: a.Kept, Anew: a.Anew, Routed: a.Routed, Expires: a.Expires}
		for _, q := range a.Requests {
			r.Ask.Requests = append(r.Ask.Requests, remoteQuestion{q.Key, q.Method, q.Params})
		}
	}
	return r
}

func (r *remoteReply) read() (*mcp.Reply, error) {
	switch {
	case r == nil:
		return nil, errNoReply
	case r.Gone:
		return nil, ErrNotThere
	case r.Error != nil && r.Error.Code == 0:
		return nil, errNoReply
	case r.Error != nil:
		return nil, &mcp.Error{Code: r.Error.Code, Message: r.Error.Message, Data: r.Error.Data}
	}
	reply := &mcp.Reply{Result: r.Result, Task: r.Task}
	if r.Ask != nil {
		reply.Ask = &mcp.Ask{State: r.Ask.State, Here: r.Ask.Here, Kept: r.Ask.Kept, Anew: r.Ask.Anew, Routed: r.Ask.Routed, Expires: r.Ask.Expires}
		for _, q := range r.Ask.Requests {
			reply.Ask.Requests = append(reply.Ask.Requests, mcp.InputRequest{Key: q.Key, Method: q.Method, Params: q.Params})
		}
	} else if !json.Valid(r.Result) {
		return nil, errNoReply
	}
	return reply, nil
}

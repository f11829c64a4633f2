package upstream

import (
	"context"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// This file is questions that send the user to a URL. Only 2025-11-25 has ids for them.

const (
	// pageWait is how long a call that is made anew waits for the server to say that
	// the user is done: many clients come back as soon as the page is open.
	pageWait = 20 * time.Second
	// anew begins the State of a call that is to be made anew; the ids follow. No
	// handle of a parked call has a colon.
	anew = "anew:"
)

// completed passes on that the user is done at a URL: to the call that asked, if it
// still runs, else to the client's session. Clients without one come back by themselves.
func (s *session) completed(m wire.Message) {
	id, _ := m.Params.Member("elicitationId")
	ours, request, ok := s.slot.state.Pages.Complete(id.Text())
	if !ok {
		return
	}
	event := mcp.Event{Method: m.Method, Params: mcp.Object("elicitationId", mcp.String(ours))}
	s.mu.Lock()
	x := s.calls[request]
	s.mu.Unlock()
	if x != nil && x.tell(event) {
		return
	}
	if tell := s.u.tell; tell != nil && s.slot.Key.session != "" && !s.slot.Sweeps {
		tell(s.slot.Key.session, event)
	}
}

// urlRequired makes the questions of URLElicitationRequiredError (2025-11-25
// client/elicitation#url-elicitation-required-error).
func (x *exchange) urlRequired(e *mcp.Error) (*mcp.Reply, error) {
	u, c := x.s.u, x.call
	ask := &mcp.Ask{Anew: true, Expires: time.Now().Add(u.cfg.Timeout.Ask)}
	var ids []string
	var refused *mcp.Error
	elicitations, _ := e.Data.Member("elicitations")
	elicitations.Elements(func(params mcp.Raw) bool {
		native, _ := params.Member("elicitationId")
		if !wire.IsURLMode(params) {
			return true
		}
		params, why := u.voice.Put(mcp.MethodElicit, params)
		if why != nil {
			refused = why
			return true
		}
		id := x.s.slot.state.Pages.Mint(native.Text(), x.id)
		ids = append(ids, id)
		ask.Requests = append(ask.Requests, mcp.InputRequest{
			Key: id, Method: mcp.MethodElicit,
			Params: params.Edit(mcp.Edit{Name: "_meta"}, mcp.Edit{Name: "elicitationId", Value: mcp.String(id)}),
		})
		return len(ids) < maxQuestions
	})
	ask.State = anew + strings.Join(ids, ",")
	asks := x.s.declared.URL && c.Session != "" // the gateway itself opens no page
	switch {
	case mcp.CanAsk(c.Method) && refused != nil:
		return nil, mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown,
			"Upstream %s asks what the user cannot be asked: %s", u.cfg.Name, refused.Message)
	case !mcp.CanAsk(c.Method), len(ids) == 0:
		return nil, dialect.HopError(u.cfg.Name, e)
	case asks && !u.admit.MayAsk(c, ask.Requests...):
		return nil, u.admit.AskedTooMuch()
	case asks:
		return &mcp.Reply{Ask: ask}, nil
	case c.Ephemeral:
		return nil, &mcp.Error{Code: mcp.CodeMissingCapability,
			Message: "Upstream " + u.cfg.Name + " needs the user to open a page first",
			Data:    mcp.Object("requiredCapabilities", mcp.Raw(`{"elicitation":{"url":{}}}`))}
	}
	return dialect.Unasked(u.cfg.Name, c, "Upstream %s needs the user to open a page first, and this client cannot be asked to do that", u.cfg.Name)
}

// isStateful reports whether the server is known to be one with sessions.
func (u *Upstream) isStateful() bool {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	return u.probe.known != nil && u.probe.known.rev.Stateful
}

// anew prepares a call that is made anew. Without one the reply or the error is the
// answer: the user did not want to.
func (u *Upstream) anew(ctx context.Context, c *mcp.Call) (fresh *mcp.Call, reply *mcp.Reply, err error) {
	timer := time.NewTimer(pageWait)
	defer timer.Stop()
	for id := range strings.SplitSeq(strings.TrimPrefix(c.State, anew), ",") {
		action, _ := c.Answers[id].Member("action")
		if c.Refused[id] != nil || c.Answers[id] != nil && action.Text() != "accept" {
			reply, err = dialect.Unasked(u.cfg.Name, c, "The user did not open the page that upstream %s needs for this call", u.cfg.Name)
			return nil, reply, err
		}
		done := u.pool.page(c.Session, id)
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-timer.C:
			timer.Reset(0) // for the others, too
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-u.base.Done():
			return nil, nil, admit.ErrDraining
		}
	}
	fresh = c.Clone()
	fresh.State, fresh.Answers, fresh.Refused = "", nil, nil
	return fresh, nil, nil
}

// page returns what is closed when the user of a client session is done at a page of our id,
// nil for a page that is not known.
func (p *sessionPool) page(session, id string) <-chan struct{} {
	for at := range p.All() {
		if at.Key.session != session || session == "" {
			continue
		}
		if done := at.Data.state.Pages.Done(id); done != nil {
			return done
		}
	}
	return nil
}

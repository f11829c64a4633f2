package upstream

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
)

// Questions that send the user to a URL. Their ids, which only 2025-11-25 has, are
// replaced by ours: a client must not mix up those of two servers, and what a server
// says is done must be something that it asked this client.

const (
	// maxPages bounds the ids that are kept of one session.
	maxPages = 100
	// pageWait is how long a call that is made anew waits for the server to say that
	// the user is done: many clients come back as soon as the page is open.
	pageWait = 20 * time.Second
	// anew begins the State of a call that is to be made anew; the ids follow. No
	// handle of a parked call has a colon.
	anew = "anew:"
)

// pages are the URLs that users were sent to, the oldest first.
type pages struct {
	mu  sync.Mutex // guards the fields below
	all []*page
}

type page struct {
	native, minted string
	call           int64         // the request in whose course the server asked
	done           chan struct{} // closed when the server says that the user is done
}

// mint returns our id for one of the server's. One without an id gets a new one.
func (p *pages) mint(native string, call int64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if native != "" && known.native == native {
			known.call = call
			return known.minted
		}
	}
	if len(p.all) == maxPages {
		p.all = append(p.all[:0:0], p.all[1:]...)
	}
	p.all = append(p.all, &page{native: native, minted: "e-" + strings.ToLower(rand.Text()), call: call, done: make(chan struct{})})
	return p.all[len(p.all)-1].minted
}

// complete notes that the user is done, and returns the page; nil for one that is not
// known, or that they were done with before.
func (p *pages) complete(native string) *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if native == "" || known.native != native {
			continue
		}
		select {
		case <-known.done:
			return nil
		default:
			close(known.done)
			return known
		}
	}
	return nil
}

func (p *pages) byMinted(id string) *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.all {
		if known.minted == id {
			return known
		}
	}
	return nil
}

// completed passes on that the user is done at a URL: to the call that asked, if it
// still runs, else to the client's session. Clients without one come back by themselves.
func (s *session) completed(m wire.Message) {
	id, _ := m.Params.Member("elicitationId")
	page := s.slot.keep.pages.complete(id.Text())
	if page == nil {
		return
	}
	event := mcp.Event{Method: m.Method, Params: mcp.Object("elicitationId", mcp.String(page.minted))}
	s.mu.Lock()
	x := s.calls[page.call]
	s.mu.Unlock()
	if x != nil && x.tell(event) {
		return
	}
	if tell := s.u.tell; tell != nil && s.slot.key.session != "" && !s.slot.sweeps {
		tell(s.slot.key.session, event)
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
		params, why := u.put(mcp.MethodElicit, params)
		if why != nil {
			refused = why
			return true
		}
		id := x.s.slot.keep.pages.mint(native.Text(), x.id)
		ids = append(ids, id)
		ask.Requests = append(ask.Requests, mcp.InputRequest{
			Key: id, Method: mcp.MethodElicit,
			Params: params.Edit(mcp.Edit{Name: "_meta"}, mcp.Edit{Name: "elicitationId", Value: mcp.String(id)}),
		})
		return len(ids) < maxQuestions
	})
	ask.State = anew + strings.Join(ids, ",")
	asks := x.s.declared.url && c.Session != "" // the gateway itself opens no page
	switch {
	case mcp.CanAsk(c.Method) && refused != nil:
		return nil, mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown,
			"Upstream %s asks what the user cannot be asked: %s", u.cfg.Name, refused.Message)
	case !mcp.CanAsk(c.Method), len(ids) == 0:
		return nil, u.hopError(e)
	case asks && !u.admit.MayAsk(c, ask.Requests...):
		return nil, u.admit.AskedTooMuch()
	case asks:
		return &mcp.Reply{Ask: ask}, nil
	case c.Ephemeral:
		return nil, &mcp.Error{Code: mcp.CodeMissingCapability,
			Message: "Upstream " + u.cfg.Name + " needs the user to open a page first",
			Data:    mcp.Object("requiredCapabilities", mcp.Raw(`{"elicitation":{"url":{}}}`))}
	}
	return u.unasked(c, "Upstream %s needs the user to open a page first, and this client cannot be asked to do that", u.cfg.Name)
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
			reply, err = u.unasked(c, "The user did not open the page that upstream %s needs for this call", u.cfg.Name)
			return nil, reply, err
		}
		page := u.pool.page(c.Session, id)
		if page == nil {
			continue
		}
		select {
		case <-page.done:
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

// page finds a page of a client session by our id.
func (p *pool) page(session, id string) *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, sl := range p.slots {
		if key.session != session || session == "" {
			continue
		}
		if page := sl.keep.pages.byMinted(id); page != nil {
			return page
		}
	}
	return nil
}

// unasked is how a call ends for which the user cannot be asked, or does not want to:
// of a tool by a result that a model can read, of anything else by an error.
func (u *Upstream) unasked(c *mcp.Call, format string, args ...any) (*mcp.Reply, error) {
	e := mcp.UpstreamError(mcp.CodeInternal, u.cfg.Name, mcp.ExecutedUnknown, format, args...)
	if c.Method != mcp.MethodToolsCall {
		return nil, e
	}
	block := mcp.Object("type", mcp.Raw(`"text"`), "text", mcp.String(e.Message))
	return &mcp.Reply{Result: mcp.Object("content", mcp.Raw("["+string(block)+"]"), "isError", mcp.Raw("true"))}, nil
}

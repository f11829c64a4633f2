package stateful

import (
	"context"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// Only 2025-11-25 has ids for questions that send the user to a URL.

// pageWait is how long a call that is made again waits for the server to say that the user is done:
// many clients come back as soon as the page is open.
const pageWait = 20 * time.Second

// urlRequired turns a URLElicitationRequiredError into questions (2025-11-25
// client/elicitation#url-elicitation-required-error).
func (x *exchange) urlRequired(e *mcp.Error) (*mcp.Reply, error) {
	env, c := x.s.env, x.call
	ask := &mcp.Ask{Restart: true, Expires: time.Now().Add(env.Timeout.Ask)}
	var ids []string
	var refused *mcp.Error
	e.Data.At("elicitations").Elements(func(params mcp.Raw) bool {
		native, _ := params.Member("elicitationId")
		if !wire.IsURLMode(params) {
			return true
		}
		params, why := env.Voice.Put(mcp.MethodElicit, params)
		if why != nil {
			refused = why
			return true
		}
		id := x.s.state.Pages.Mint(native.Text(), x.id)
		ids = append(ids, id)
		ask.Requests = append(ask.Requests, mcp.InputRequest{
			Key: id, Method: mcp.MethodElicit,
			Params: params.Edit(mcp.Edit{Name: "_meta"}, mcp.Edit{Name: "elicitationId", Value: mcp.String(id)}),
		})
		return len(ids) < maxQuestions
	})
	ask.Round = mcp.NewRound(mcp.FramePages, strings.Join(ids, ","))
	asks := x.s.declared.URL && c.Session != "" // the gateway itself opens no page
	switch {
	case mcp.CanAsk(c.Method) && refused != nil:
		return nil, mcp.UpstreamError(failure.QuestionImpossible, env.Upstream, mcp.ExecutedUnknown,
			"Upstream %s asks what the user cannot be asked: %s", env.Upstream, refused.Message)
	case !mcp.CanAsk(c.Method), len(ids) == 0:
		return nil, dialect.HopError(env.Upstream, e)
	case asks && !env.Admit.MayAsk(c, ask.Requests...):
		return nil, env.Admit.AskedTooMuch()
	case asks:
		return &mcp.Reply{Ask: ask}, nil
	case c.Ephemeral:
		return nil, mcp.Errorf(failure.MissingCapability, "Upstream %s needs the user to open a page first", env.Upstream).
			WithData(mcp.Object("requiredCapabilities", mcp.Raw(`{"elicitation":{"url":{}}}`)))
	}
	return dialect.Unasked(env.Upstream, c,
		"Upstream %s needs the user to open a page first, and this client cannot be asked to do that", env.Upstream)
}

// Restart prepares a call to be made from the beginning, after its FramePages. If fresh is nil, the reply or the
// error is the answer: the user declined.
func (d *Dialect) Restart(ctx context.Context, c *mcp.Call) (fresh *mcp.Call, reply *mcp.Reply, err error) {
	timer := time.NewTimer(pageWait)
	defer timer.Stop()
	for id := range strings.SplitSeq(c.Round.Top().Value, ",") {
		if c.Refused[id] != nil || c.Answers[id] != nil && c.Answers[id].At("action").Text() != "accept" {
			reply, err = dialect.Unasked(d.env.Upstream, c,
				"The user did not open the page that upstream %s needs for this call", d.env.Upstream)
			return nil, reply, err
		}
		done := d.page(c.Session, id)
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-timer.C:
			timer.Reset(0) // the other pages are not waited for either
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-d.env.Base.Done():
			return nil, nil, admit.ErrDraining
		}
	}
	fresh = c.Clone()
	fresh.Round, fresh.Answers, fresh.Refused = nil, nil, nil
	return fresh, nil, nil
}

// page returns a channel that is closed when a client session's user is done at a page, by our id;
// nil for an unknown page.
func (d *Dialect) page(session, id string) <-chan struct{} {
	for at := range d.pool.All() {
		if at.Key.session != session || session == "" {
			continue
		}
		if done := at.Data.state.Pages.Done(id); done != nil {
			return done
		}
	}
	return nil
}

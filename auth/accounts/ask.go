package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// signInKey is the key of the question.
	signInKey = mcp.OwnKey + "sign-in"
	// mostSignIns is how often one call has its user sign in.
	mostSignIns = 3
)

// Middleware asks the user of a call to sign in if its server says so (failure.SignInNeeded). It
// repeats the call when the user has. It stands next to the catalog: what is above sees a server
// that asks. Lists never ask: they are without the server until then.
func (a *Accounts) Middleware(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if text, _, ours := c.Round.Pop(mcp.FrameSignIn); ours {
			return a.again(ctx, c, text, next)
		}
		reply, err := next.Handle(ctx, c)
		if err == nil || c.Target.Upstream == "" || mcp.FailureOf(err) != failure.SignInNeeded {
			return reply, err
		}
		return a.ask(c, err, 0)
	})
}

// ask asks the user to sign in, as the client supports it: by a question if it opens pages, else by
// a text with the link.
func (a *Accounts) ask(c *mcp.Call, why error, before int) (*mcp.Reply, error) {
	if flow := a.SignIn(); !a.OneUser() && (flow == nil || flow.Issuer != c.Caller.Issuer) {
		return nil, why // this user cannot open a link
	}
	t, text := a.newTicket(vault.OwnerOf(c.Caller), c.Target.Upstream, before)
	link := a.PublicURL + linkPath + text
	// A call that waits at the server with a round of its own would be lost with the question.
	if len(c.Round) == 0 && mcp.CanAskInSession(c.Method) && mcp.ReadDeclared(c.Caps).URL {
		return question(t, text, link), nil
	}
	return nil, say(t.Server,
		fmt.Sprintf("Upstream %s needs the user to sign in there first, so this did not run. Show the user this link, to be opened in a browser. "+
			"It is for this user alone, and good for ten minutes. When the user has signed in, try again: %s", t.Server, link),
		link)
}

// question is the reply that asks.
func question(t ticket, text, link string) *mcp.Reply {
	return &mcp.Reply{Ask: &mcp.Ask{
		Requests: []mcp.InputRequest{{Key: signInKey, Method: mcp.MethodElicit, Params: mcp.Object(
			"mode", mcp.String("url"),
			"message", mcp.String("Sign in at "+t.Server+
				", so that the gateway can use it in your name. What you asked for goes on when you have."),
			"url", mcp.String(link))}},
		Round: mcp.NewRound(mcp.FrameSignIn, text), Expires: t.Until,
	}}
}

// again repeats a call that had asked its user to sign in.
func (a *Accounts) again(ctx context.Context, c *mcp.Call, text string, next mcp.Handler) (*mcp.Reply, error) {
	t, err := a.openTicket(text)
	if err != nil || t.owner() != vault.OwnerOf(c.Caller) {
		return nil, mcp.Errorf(failure.StateInvalid,
			"Invalid params: the sign-in that this request waited for is too old, or it is not this user's").
			WithData(mcp.Object("reason", mcp.String("expired")))
	}
	action, _ := c.Answers[signInKey].Member("action")
	declined := c.Refused[signInKey] != nil || action.Text() == "decline" || action.Text() == "cancel"
	became := pending
	if !declined {
		waiting := c.Trail.Begin("sign-in", "")
		became, err = a.await(ctx, t)
		waiting.End("")
		if err != nil {
			return nil, a.unavailable(ctx, err)
		}
	}
	switch {
	case declined, became == refused:
		return nil, say(t.Server, "The user did not sign in at upstream "+t.Server+
			", so this did not run. Do not try again unless the user asks for it.", "")
	case became == pending:
		return question(t, text, a.PublicURL+linkPath+text), nil
	}
	// Another replica may have kept the account: this one has to see it.
	if _, err := a.state(ctx, t.owner(), t.Server); err != nil {
		return nil, a.unavailable(ctx, err)
	}
	a.Changed(t.Server, &c.Caller)
	fresh := c.Clone()
	fresh.Round, fresh.Answers, fresh.Refused = nil, nil, nil
	reply, err := next.Handle(ctx, fresh)
	e, ok := errors.AsType[*mcp.Error](err)
	switch asked := t.Before + 1; {
	case !ok || e.Name != failure.SignInNeeded || fresh.Target.Upstream == "":
		return reply, err
	case asked == mostSignIns:
		return nil, say(t.Server,
			fmt.Sprintf("%s. You have signed in for this %d times: ask the operator of %s for what is missing", e.Message,
				asked, t.Server), "")
	default:
		return a.ask(fresh, err, asked) // such as for more rights
	}
}

// unavailable returns the error for a store that does not answer, or the context's if the caller has left.
func (a *Accounts) unavailable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		return cause
	}
	return mcp.Errorf(failure.StoreDown, "Accounts are not available now: try again in a minute").
		WithData(mcp.Object("retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo))))
}

// say makes the error that ends a call. A model and a person can read it.
func say(server, text, link string) error {
	e := mcp.UpstreamError(failure.SignInNeeded, server, mcp.ExecutedNo, "%s", text)
	if e.AsResult = true; link != "" {
		e.Data = e.Data.With("url", mcp.String(link))
	}
	return e
}

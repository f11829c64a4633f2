package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Bounds of the body of a request, in bytes: of any, and of one with a configuration.
const (
	mostBody  = 64 << 10
	mostDraft = 2 << 20
)

// longestReplay bounds the time of a replay.
const longestReplay = 20 * time.Second

// Bounds of pages of tools, and of approvals.
const (
	defaultTools = 100
	mostTools    = 1000
	// longestAct bounds the wait of an answer for the effect on a server.
	longestAct = 25 * time.Second
	// mostApproved bounds the definitions that one request approves, and mostApproval its body, in
	// bytes.
	mostApproved = 500
	mostApproval = 512 << 10
)

func sessions(ctx context.Context, a *API, _ Operator, _ None) (Sessions, error) {
	all, missing := a.deps.Sessions.All(ctx)
	return Sessions{some(all), missing}, nil
}

// endSession ends a session of a client.
func endSession(ctx context.Context, a *API, who Operator, digest string) (none None, err error) {
	if err := a.deps.Sessions.EndAnywhere(ctx, digest); err != nil {
		return none, err
	}
	a.acted(who, &record.Record{Event: "session ended", Session: digest})
	return none, nil
}

func accountQuestion(x *exchange) (AccountQuestion, error) {
	asked := x.r.URL.Query()
	q := AccountQuestion{Issuer: asked.Get("issuer"), User: asked.Get("user"), Server: x.r.PathValue("upstream")}
	if q.User == "" {
		return q, BadRequest("user: is needed: the subject of their tokens, as records have it")
	}
	return q, nil
}

func accounts(ctx context.Context, a *API, _ Operator, q AccountQuestion) (Accounts, error) {
	all, err := a.deps.Accounts.Of(ctx, q.Issuer, q.User)
	if err != nil {
		return Accounts{}, refusal(http.StatusServiceUnavailable, failure.StoreDown, err.Error())
	}
	return Accounts{some(all)}, nil
}

func endAccount(ctx context.Context, a *API, who Operator, q AccountQuestion) (none None, err error) {
	if err := a.deps.Accounts.End(ctx, q.Issuer, q.User, q.Server); err != nil {
		if _, known := errors.AsType[*Refusal](err); !known {
			err = refusal(http.StatusServiceUnavailable, failure.StoreDown, err.Error())
		}
		return none, err
	}
	a.acted(who, &record.Record{Event: "account ended", Upstream: q.Server, Reason: "that of " + q.User})
	return none, nil
}

// reload reads the configuration again. A refused one is an answer with 422.
func reload(_ context.Context, a *API, who Operator, _ None) (Reload, error) {
	outcome, err := a.deps.Configuration.Reload()
	if err != nil {
		return outcome, refusal(http.StatusConflict, failure.AdminRequest, err.Error())
	}
	if !outcome.Applied {
		a.acted(who, &record.Record{Event: "reload refused", Reason: "nothing was changed: the log has the problems"})
		return outcome, &refusedReload{outcome}
	}
	a.acted(who, &record.Record{Event: "reload applied"})
	return outcome, nil
}

// explain asks policy.
func explain(ctx context.Context, a *API, _ Operator, q Question) (Answer, error) {
	withoutNull(&q.Args, &q.Claims)
	answer, err := a.deps.WhatIf.Explain(ctx, q)
	if err != nil { // describes the mistake in the question
		return answer, BadRequest(err.Error())
	}
	return answer, nil
}

// replayDraft runs a draft against recent calls, one at a time. Conditions of a draft reveal what
// they look at, so it sees the arguments of calls only for operators who may see them.
func replayDraft(ctx context.Context, a *API, who Operator, d Draft) (*replay.Report, error) {
	d.Arguments = who.May(RoleAuditor)
	now := time.Now()
	for name, one := range map[string]struct {
		text string
		to   *time.Time
	}{"since": {d.Since, &d.Filter.Since}, "until": {d.Until, &d.Filter.Until}} {
		at, err := readTime(one.text, now)
		if err != nil {
			return nil, BadRequest(name + ": want a time such as 2026-11-23T08:00:00Z, or how long ago, such as 24h")
		}
		*one.to = at
	}
	if !a.replays.TryLock() {
		return nil, busy("another replay runs")
	}
	defer a.replays.Unlock()
	ctx, cancel := context.WithTimeout(ctx, longestReplay)
	defer cancel()
	report, err := a.deps.WhatIf.Replay(ctx, d)
	if ctx.Err() != nil {
		return nil, busy(fmt.Sprintf("the replay takes longer than %s: let gatehouse policy replay do it with files of records", longestReplay))
	}
	return report, err
}

func replicas(_ context.Context, a *API, _ Operator, _ None) (Replicas, error) {
	return Replicas{some(a.deps.Replicas.All())}, nil
}

func upstreams(_ context.Context, a *API, _ Operator, _ None) (Upstreams, error) {
	return Upstreams{some(a.deps.Servers.Upstreams())}, nil
}

// toolPage reads the wanted server, and the page of its tools.
func toolPage(x *exchange) (ToolPage, error) {
	query := x.r.URL.Query()
	page := ToolPage{Upstream: x.r.PathValue("name"), Limit: defaultTools}
	for name, one := range map[string]struct {
		to          *int
		least, most int
	}{"from": {&page.From, 0, 1 << 30}, "limit": {&page.Limit, 1, mostTools}} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < one.least || n > one.most {
			return page, BadRequest(name + ": want a number from " + strconv.Itoa(one.least) + " to " + strconv.Itoa(one.most))
		}
		*one.to = n
	}
	switch query.Get("sort") {
	case "", "name":
	case "tokens":
		page.ByTokens = true
	default:
		return page, BadRequest("sort: want name or tokens")
	}
	return page, nil
}

func server(_ context.Context, a *API, _ Operator, page ToolPage) (Server, error) {
	return a.deps.Servers.Server(page)
}

// act returns the operation that changes or probes a server.
func act(what, event string) Operation[string, Acted] {
	do := func(ctx context.Context, a *API, who Operator, name string) (Acted, error) {
		ctx, cancel := context.WithTimeout(ctx, longestAct)
		defer cancel()
		done, err := a.deps.Servers.Act(ctx, Action{Upstream: name, What: what, By: who.Name})
		if err != nil && errors.Is(err, ctx.Err()) {
			return done, busy("it takes long, and goes on: ask for the server's state")
		}
		if err != nil {
			return done, err
		}
		if done.Changed {
			r := &record.Record{Event: event, Upstream: name}
			if done.Failure != nil {
				r.Reason = done.Failure.Code
			}
			a.acted(who, r)
		}
		return done, nil
	}
	return Operation[string, Acted]{"POST /api/v1/upstreams/{name}/" + what, RoleOperator, segment("name"), do}
}

func pins(_ context.Context, a *API, _ Operator, upstream string) (Pins, error) {
	return Pins{some(a.deps.Servers.Pins(upstream))}, nil
}

// approvePins approves definitions as they were seen.
func approvePins(_ context.Context, a *API, who Operator, wanted PinApproval) (done Approved, err error) {
	if n := len(wanted.Pins); n == 0 || n > mostApproved {
		return done, BadRequest(fmt.Sprintf("pins: want 1 to %d definitions, with upstream, list, name and digest as GET /api/v1/pins has them", mostApproved))
	}
	if done, err = a.deps.Servers.Approve(wanted); err != nil {
		return done, err
	}
	for _, p := range wanted.Pins {
		a.acted(who, &record.Record{Event: "definition approved", Upstream: p.Upstream, List: p.List, Original: p.Name,
			Reason: p.Digest})
	}
	return done, nil
}

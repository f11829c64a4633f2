package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

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

// Bounds of pages of tools, and of what is approved at once.
const (
	defaultTools = 100
	mostTools    = 1000
	// longestAct bounds how long an answer waits for what was done to a server.
	longestAct = 25 * time.Second
	// mostApproved bounds the definitions that one request approves, and mostApproval its body, in
	// bytes.
	mostApproved = 500
	mostApproval = 512 << 10
)

// acted records what an operator did.
func (a *API) acted(x *exchange, event, session, reason string) {
	a.record(x, &record.Record{Kind: record.KindAdmin, Event: event, User: x.who.Name, Session: session, Reason: reason})
	a.deps.Log.Info("an operator acted", "event", event, "operator", x.who.Name, "session", session)
}

// refusals bounds the records of refused requests: anybody who reaches the listener can make
// them.
type refusals struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	count int
}

// few reports whether a refusal is to be recorded: there are few within a minute.
func (f *refusals) few(now time.Time) bool {
	const most = 20
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.since) >= time.Minute {
		f.since, f.count = now, 0
	}
	f.count++
	return f.count <= most
}

// refused records that somebody was refused.
func (a *API) refused(x *exchange, err error) {
	if !a.refusals.few(time.Now()) {
		return
	}
	r := &record.Record{Kind: record.KindAdmin, Event: "refused", User: x.who.Name, Method: x.r.Method, Name: x.r.URL.Path}
	if known, ok := errors.AsType[*refusalError](err); ok {
		r.Error, r.Code, r.Reason = known.Code, known.status, known.Message
	}
	a.record(x, r)
}

// endSession ends a session of a client.
func (a *API) endSession(x *exchange) error {
	digest := x.r.PathValue("session")
	err := a.deps.EndSession(x.r.Context(), digest)
	switch {
	case errors.Is(err, ErrNoSession):
		return refusal(http.StatusNotFound, failure.AdminNotFound, err.Error())
	case errors.Is(err, ErrNotAsked):
		return refusal(http.StatusServiceUnavailable, failure.ReplicaUnreachable, err.Error())
	case err != nil:
		return err
	}
	a.acted(x, "session ended", digest, "")
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

var errNoUser = refusal(http.StatusBadRequest, failure.AdminRequest, "user: is needed: the subject of their tokens, as records have it")

func listAccounts(a *API, x *exchange) error {
	asked := x.r.URL.Query()
	if asked.Get("user") == "" {
		return errNoUser
	}
	all, err := a.deps.Accounts.Of(x.r.Context(), asked.Get("issuer"), asked.Get("user"))
	if err != nil {
		return refusal(http.StatusServiceUnavailable, failure.StoreDown, err.Error())
	}
	return x.answer(struct {
		Accounts []Account `json:"accounts"`
	}{some(all)})
}

func endAccount(a *API, x *exchange) error {
	asked, server := x.r.URL.Query(), x.r.PathValue("upstream")
	if asked.Get("user") == "" {
		return errNoUser
	}
	err := a.deps.Accounts.End(x.r.Context(), asked.Get("issuer"), asked.Get("user"), server)
	switch {
	case errors.Is(err, ErrNoServer):
		return refusal(http.StatusNotFound, failure.AdminNotFound, err.Error())
	case errors.Is(err, ErrSomeIssuer):
		return refusal(http.StatusBadRequest, failure.AdminRequest, err.Error())
	case err != nil:
		return refusal(http.StatusServiceUnavailable, failure.StoreDown, err.Error())
	}
	a.record(x, &record.Record{Kind: record.KindAdmin, Event: "account ended", User: x.who.Name, Upstream: server, Reason: "that of " + asked.Get("user")})
	a.deps.Log.Info("an operator acted", "event", "account ended", "operator", x.who.Name, "upstream", server)
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

// reload reads the configuration again. A refused one is an answer with 422.
func (a *API) reload(x *exchange) error {
	outcome, err := a.deps.Reload()
	if err != nil {
		return refusal(http.StatusConflict, failure.AdminRequest, err.Error())
	}
	if !outcome.Applied {
		a.acted(x, "reload refused", "", "nothing was changed: the log has the problems")
		return x.answerWith(http.StatusUnprocessableEntity, outcome)
	}
	a.acted(x, "reload applied", "", "")
	return x.answer(outcome)
}

// explain asks policy.
func (a *API) explain(x *exchange) error {
	var q Question
	if err := x.read(mostBody, &q); err != nil {
		return err
	}
	if q.Args.IsNull() {
		q.Args = nil
	}
	if q.Claims.IsNull() {
		q.Claims = nil
	}
	answer, err := a.deps.Explain(x.r.Context(), q)
	if err != nil { // says what is wrong with the question
		return refusal(http.StatusBadRequest, failure.AdminRequest, err.Error())
	}
	return x.answer(answer)
}

// replay runs a draft against recent calls, one at a time. Conditions of a draft tell about what
// they look at, so it sees the arguments of calls only for those who may.
func (a *API) replay(x *exchange) error {
	d := Draft{Arguments: x.seesArguments()}
	if err := x.read(mostDraft, &d); err != nil {
		return err
	}
	now := time.Now()
	for name, one := range map[string]struct {
		text string
		to   *time.Time
	}{"since": {d.Since, &d.Filter.Since}, "until": {d.Until, &d.Filter.Until}} {
		at, err := readTime(one.text, now)
		if err != nil {
			return refusal(http.StatusBadRequest, failure.AdminRequest, name+": want a time such as 2026-11-23T08:00:00Z, or how long ago, such as 24h")
		}
		*one.to = at
	}
	if !a.replays.TryLock() {
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, "another replay runs")
	}
	defer a.replays.Unlock()
	ctx, cancel := context.WithTimeout(x.r.Context(), longestReplay)
	defer cancel()
	report, err := a.deps.Replay(ctx, d)
	if ctx.Err() != nil {
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, fmt.Sprintf("the replay takes longer than %s: let gatehouse policy replay do it with files of records", longestReplay))
	}
	if bad, ok := errors.AsType[*BadDraft](err); ok {
		return x.answerWith(http.StatusUnprocessableEntity, bad)
	}
	if err != nil {
		return err
	}
	return x.answer(report)
}

// oneServer answers with one server.
func oneServer(a *API, x *exchange) error {
	query := x.r.URL.Query()
	page := ToolPage{Limit: defaultTools}
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
			return refusal(http.StatusBadRequest, failure.AdminRequest, name+": want a number from "+strconv.Itoa(one.least)+" to "+strconv.Itoa(one.most))
		}
		*one.to = n
	}
	switch query.Get("sort") {
	case "", "name":
	case "tokens":
		page.ByTokens = true
	default:
		return refusal(http.StatusBadRequest, failure.AdminRequest, "sort: want name or tokens")
	}
	found, err := a.deps.Server(x.r.PathValue("name"), page)
	if err != nil {
		return notDone(err)
	}
	return x.answer(found)
}

// act returns a handler that does something to a server.
func act(what, event string) func(*API, *exchange) error {
	return func(a *API, x *exchange) error {
		name := x.r.PathValue("name")
		ctx, cancel := context.WithTimeout(x.r.Context(), longestAct)
		defer cancel()
		done, err := a.deps.Act(ctx, Action{Upstream: name, What: what, By: x.who.Name})
		if err != nil && errors.Is(err, ctx.Err()) {
			return refusal(http.StatusServiceUnavailable, failure.AdminBusy, "it takes long, and goes on: ask for the server's state")
		}
		if err != nil {
			return notDone(err)
		}
		if done.Changed {
			reason := ""
			if done.Failure != nil {
				reason = done.Failure.Code
			}
			a.record(x, &record.Record{Kind: record.KindAdmin, Event: event, User: x.who.Name, Upstream: name, Reason: reason})
			a.deps.Log.Info("an operator acted", "event", event, "operator", x.who.Name, "upstream", name)
		}
		return x.answer(done)
	}
}

// notDone turns errors of Server, Act and Approve into those that the client may read.
func notDone(err error) error {
	if errors.Is(err, ErrNoServer) {
		return refusal(http.StatusNotFound, failure.AdminNotFound, err.Error())
	}
	if now, ok := errors.AsType[*NotNow](err); ok {
		return refusal(http.StatusConflict, failure.AdminRequest, now.Why)
	}
	return err
}

// approvePins approves definitions as they were seen.
func approvePins(a *API, x *exchange) error {
	var wanted PinApproval
	if err := x.read(mostApproval, &wanted); err != nil {
		return err
	}
	if n := len(wanted.Pins); n == 0 || n > mostApproved {
		return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("pins: want 1 to %d definitions, with upstream, list, name and digest as GET /api/v1/pins has them", mostApproved))
	}
	done, err := a.deps.Approve(wanted)
	if err != nil {
		return notDone(err)
	}
	for _, p := range wanted.Pins {
		a.record(x, &record.Record{
			Kind: record.KindAdmin, Event: "definition approved", User: x.who.Name,
			Upstream: p.Upstream, List: p.List, Original: p.Name, Reason: p.Digest,
		})
	}
	a.deps.Log.Info("an operator acted", "event", "definitions approved", "operator", x.who.Name, "count", done.Approved)
	return x.answer(done)
}

// read reads the body of a request, an object of at most so many bytes.
func (x *exchange) read(most int64, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, most))
	if err != nil {
		return refusal(http.StatusBadRequest, failure.AdminRequest, "the body is too large, or was cut off")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return refusal(http.StatusBadRequest, failure.AdminRequest, "the body is not what the description says: "+err.Error())
	}
	return nil
}

package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

// Path begins all paths of the API. Replicas ask each other about one call at CallPath, too.
const (
	Path     = "/api/"
	CallPath = Path + "v1/calls/"
)

// Errors of EndSession and Reload.
var (
	ErrNoSession = refusal(http.StatusNotFound, failure.AdminNotFound, "no replica knows such a session")
	ErrNotAsked  = refusal(http.StatusServiceUnavailable, failure.ReplicaUnreachable,
		"not all replicas answer, so one of them may know such a session")
	ErrNoFile = errors.New("there is no configuration file to read again")
)

// Deps are the sources and actions of the API. All fields are required.
type Deps struct {
	// Config returns the section in force: the rights of operators.
	Config func() Config
	// Origin returns the origin of a request.
	Origin func(*http.Request) mcp.Origin
	// Identify returns the owner of a request's access token. Its error is an *auth.RefusedError.
	Identify func(*http.Request) (mcp.Caller, error)
	Recent   *recent.Records
	// Lasting ends a stream of records with the operator's token.
	Lasting *mcp.Lasting
	// Journal takes records of the actions of operators.
	Journal *audit.Journal
	// FourEyes has the calls that wait for another person's approval.
	FourEyes *foureyes.Table
	Replicas interface {
		// All returns this replica and the others.
		All() []Replica
		// CallAt returns another replica's answer about a call for an operator with these roles. The
		// error says why there is none.
		CallAt(ctx context.Context, replica, id string, roles []string) ([]byte, error)
	}
	Self          string // the name of this replica
	Servers       Servers
	Configuration Configuration
	Settings      Settings
	Sessions      interface {
		// All returns the sessions of all replicas, and the replicas that did not answer.
		All(context.Context) (all []Session, missing []string)
		// EndAnywhere ends the session with a digest, at any replica. Errors: ErrNoSession,
		// ErrNotAsked, and those of the store.
		EndAnywhere(ctx context.Context, digest string) error
	}
	// Accounts are those of users at servers.
	Accounts interface {
		// Of returns those of a user of an issuer, of all issuers for "".
		Of(ctx context.Context, issuer, user string) ([]Account, error)
		// End ends an account, as if its user had signed out. The issuer can be "" where there is
		// only one. Errors: ErrNoServer, ErrSomeIssuer, that of the store.
		End(ctx context.Context, issuer, user, server string) error
	}
	// Finder returns findings about the gateway, worst first. The error is that of the context.
	Finder interface {
		Findings(context.Context) ([]Finding, error)
	}
	WhatIf WhatIf
	// Prober tries servers, until ctx ends. The error is a *BadDraft, or of the gateway.
	Prober interface {
		Probe(ctx context.Context, p Attempt) (Probed, error)
	}
	Log *slog.Logger
}

// Servers are those of the configuration in force.
type Servers interface {
	Upstreams() []Upstream
	// Server returns one server. The error is ErrNoServer.
	Server(page ToolPage) (Server, error)
	// Act applies an action to a server. Errors: ErrNoServer, that of NotNow, that of ctx.
	Act(ctx context.Context, a Action) (Acted, error)
	// Pins returns the definitions that are not approved, of one server or, with "", of all.
	Pins(upstream string) []Pin
	// Approve approves definitions, all or none. The error is that of NotNow, or that of the gateway.
	Approve(PinApproval) (Approved, error)
}

// Configuration is the one in force.
type Configuration interface {
	State() State
	// Policy returns the rules in force, without counts.
	Policy() Policy
	// RuleAt returns the place of a policy rule, file:line; "" if it is not known.
	RuleAt(rule string) string
	// Reload reads the file again. The error is ErrNoFile, or that the gateway does not run.
	Reload() (Reload, error)
}

// WhatIf answers hypothetical questions.
type WhatIf interface {
	Explain(ctx context.Context, q Question) (Answer, error)
	// Replay runs a draft of a configuration against recent calls. The error is a *BadDraft, or
	// that of ctx.
	Replay(ctx context.Context, d Draft) (*replay.Report, error)
	// Lists returns the entries of a list that a caller gets, and those that it does not. The error is
	// that of BadRequest, or that of ctx.
	Lists(ctx context.Context, q ListQuestion) (ListAnswer, error)
	// Try calls a tool as a caller, nil for an unidentified one. The error is ErrNobody, or that of BadRequest.
	Try(ctx context.Context, caller *mcp.Caller, t Trial) (Tried, error)
	// Examine judges a token at the endpoint of a view. The error is a BadRequest.
	Examine(ctx context.Context, token, view string) (Examined, error)
}

// API answers the requests of operators.
type API struct {
	deps     Deps
	mux      *http.ServeMux
	refusals refusals
	replays  sync.Mutex    // held by the replay that runs
	probes   sync.Mutex    // held by the probe that runs
	lists    chan struct{} // has one for each list that is made
	tries    chan struct{} // likewise for tools that are tried
	checks   chan struct{} // likewise for texts that are checked
	exams    chan struct{} // likewise for tokens that are examined
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	a.mux.ServeHTTP(w, r)
}

// handle serves a pattern to operators with a role.
func (a *API) handle(pattern, role string, do func(*API, *exchange) error) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: w, r: r}
		err := a.enter(x, role)
		if err == nil {
			err = do(a, x)
		}
		if err != nil {
			a.fail(x, err)
		}
	})
}

// enter identifies the operator of a request, and refuses one without the role.
func (a *API) enter(x *exchange, role string) (err error) {
	x.who, err = a.admit(x.r, role)
	x.who.From = a.deps.Origin(x.r)
	if err != nil {
		a.refused(x.who, err, x.r.Method, x.r.URL.Path)
		return err
	}
	return a.allow(x.who, role, x.r.Method, x.r.URL.Path)
}

// allow refuses an operator without the role.
func (a *API) allow(who Operator, role, method, path string) error {
	if who.May(role) {
		return nil
	}
	err := refusal(http.StatusForbidden, failure.AdminRole,
		"this needs the role "+role+", and "+who.Name+" has the role "+who.role())
	a.refused(who, err, method, path)
	return err
}

// Ask answers an operator that the caller has identified; see Asker.
func (a *API) Ask(r *http.Request, who Operator, o Asked, q, into any) error {
	who.From = a.deps.Origin(r)
	method, path, _ := strings.Cut(o.Pattern(), " ")
	if err := a.allow(who, o.needs(), method, path); err != nil {
		return err
	}
	return o.answer(r.Context(), a, who, q, into)
}

// record records an operation that an operator made or wanted.
func (a *API) record(who Operator, r *record.Record) {
	r.ClientAddress, r.UserAgent = who.From.Address, who.From.Agent
	a.deps.Journal.Put(r)
}

// acted records an action of an operator.
func (a *API) acted(who Operator, r *record.Record) {
	r.Kind, r.User = record.KindAdmin, who.Name
	a.record(who, r)
	a.deps.Log.Info("an operator acted",
		"event", r.Event, "operator", who.Name, "upstream", r.Upstream, "session", r.Session, "name", r.Name, "call", r.ID)
}

// refusals bounds the records of refused requests: any program that reaches the listener can cause
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

// refused records the refusal of a request.
func (a *API) refused(who Operator, err error, method, path string) {
	if !a.refusals.few(time.Now()) {
		return
	}
	r := &record.Record{Kind: record.KindAdmin, Event: "refused", User: who.Name, Method: method, Name: path}
	if known, ok := errors.AsType[*Refusal](err); ok {
		r.Error, r.Code, r.Reason = known.Code, known.Status, known.Message
	}
	a.record(who, r)
}

// fail answers with an error. One that is not for the client is logged.
func (a *API) fail(x *exchange, err error) {
	if bad, ok := errors.AsType[*BadDraft](err); ok {
		_ = x.answer(http.StatusUnprocessableEntity, bad)
		return
	}
	if bad, ok := errors.AsType[*refusedReload](err); ok {
		_ = x.answer(http.StatusUnprocessableEntity, bad.Reload)
		return
	}
	known, ok := errors.AsType[*Refusal](err)
	if !ok {
		a.deps.Log.Error("admin API", failure.Internal.Attr(), "path", x.r.URL.Path, "error", err)
		known = &Refusal{http.StatusInternalServerError, failure.Internal.String(), "internal error: the log has the cause"}
	}
	if known.Status == http.StatusUnauthorized {
		x.w.Header().Set("WWW-Authenticate", `Bearer realm="gatehouse admin"`)
	}
	_ = x.answer(known.Status, struct {
		Error *Refusal `json:"error"`
	}{known})
}

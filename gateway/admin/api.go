package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

// Path is where the API begins, CallPath where replicas ask each other about one call, too.
const (
	Path     = "/api/"
	CallPath = Path + "v1/calls/"
)

// Errors of EndSession and Reload.
var (
	ErrNoSession = errors.New("no replica knows such a session")
	ErrNotAsked  = errors.New("not all replicas answer, so one of them may know such a session")
	ErrNoFile    = errors.New("there is no configuration file to read again")
)

// Deps are what the API shows and does. All fields are required.
type Deps struct {
	// Config returns who may do what now.
	Config func() Config
	// Trusted reports whether a request comes from this machine itself.
	Trusted func(*http.Request) bool
	Recent  *recent.Records
	// Lasting ends what somebody follows with the token that it is followed with.
	Lasting *mcp.Lasting
	// Self is the name of this replica.
	Self string
	// CallAt returns what another replica answers an operator with these roles about a call. The
	// error says why it does not.
	CallAt func(ctx context.Context, replica, id string, roles []string) ([]byte, error)
	// Record takes records of what operators do.
	Record func(*record.Record)
	// Origin returns where a request comes from; may be nil.
	Origin func(*http.Request) mcp.Origin

	Upstreams func() []Upstream
	// Findings returns what is not well, worst first. The error is that of the context.
	Findings func(context.Context) ([]Finding, error)
	// Pins returns what is not approved, of one server or, with "", of all.
	Pins func(upstream string) []Pin
	// Approve approves definitions, all or none. The error is a *NotNow, or that of the gateway.
	Approve func(PinApproval) (Approved, error)
	// Server returns one server. The error is ErrNoServer.
	Server func(name string, page ToolPage) (Server, error)
	// Act does something to a server. Errors: ErrNoServer, a *NotNow, that of ctx.
	Act func(ctx context.Context, a Action) (Acted, error)
	// Policy returns the rules that hold, without counts.
	Policy func() Policy
	// Sessions returns the sessions of all replicas, and the replicas that did not answer.
	Sessions func(context.Context) (all []Session, missing []string)
	// EndSession ends the session with a digest, at whichever replica. Errors: ErrNoSession,
	// ErrNotAsked, and those of the store.
	EndSession func(ctx context.Context, digest string) error
	Accounts   Accounts
	Replicas   func() []Replica
	// Identify finds out whose access token a request has. Its error is an *auth.RefusedError.
	Identify func(*http.Request) (mcp.Caller, error)
	// FourEyes has the calls that wait for somebody else's approval.
	FourEyes *foureyes.Table
	// RuleAt returns the place of a policy rule, file:line; "" if it is not known.
	RuleAt func(rule string) string
	// Reload reads the configuration again. The error is ErrNoFile, or that the gateway does not
	// run.
	Reload  func() (Reload, error)
	Explain func(ctx context.Context, q Question) (Answer, error)
	// Replay runs a draft of a configuration against recent calls. The error is a *BadDraft, or
	// that of ctx.
	Replay func(ctx context.Context, d Draft) (*replay.Report, error)
	// Lists says what a caller gets from a list, and what not. The error is a *BadQuestion, or that
	// of ctx.
	Lists func(ctx context.Context, q ListQuestion) (ListAnswer, error)
	// Try calls a tool as a caller. The error is a *BadQuestion.
	Try func(ctx context.Context, caller mcp.Caller, t Trial) (Tried, error)
	// Examine says what the gateway thinks of a token at the endpoint of a view. The error is a
	// *BadQuestion.
	Examine func(ctx context.Context, token, view string) (Examined, error)
	// Alone reports whether all callers are the same one, since nobody has to say who they are.
	Alone func() bool
	State func() State
	// Settings see and change the configuration.
	Settings Settings
	Log      *slog.Logger
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

// route is one thing that the API can be asked.
type route struct {
	pattern string // method and path, as for http.ServeMux
	role    string // that is needed
	handle  func(*API, *exchange) error
}

var routes = []route{
	{"GET /api/v1/decisions", RoleViewer, (*API).decisions},
	{"GET /api/v1/decisions/live", RoleViewer, (*API).live},
	{"GET " + CallPath + "{id}", RoleViewer, (*API).call},
	{"GET /api/v1/upstreams", RoleViewer, func(a *API, x *exchange) error { return x.answer(upstreams{some(a.deps.Upstreams())}) }},
	{"GET /api/v1/upstreams/{name}", RoleViewer, oneServer},
	{"POST /api/v1/upstreams/{name}/probe", RoleOperator, act(Probe, "upstream probed")},
	{"POST /api/v1/upstreams/{name}/reconnect", RoleOperator, act(Reconnect, "upstream reconnected")},
	{"POST /api/v1/upstreams/{name}/disable", RoleOperator, act(Disable, "upstream disabled")},
	{"POST /api/v1/upstreams/{name}/enable", RoleOperator, act(Enable, "upstream enabled")},
	{"GET /api/v1/sessions", RoleViewer, func(a *API, x *exchange) error {
		all, missing := a.deps.Sessions(x.r.Context())
		return x.answer(sessions{some(all), missing})
	}},
	{"GET /api/v1/pins", RoleViewer, func(a *API, x *exchange) error {
		return x.answer(pins{some(a.deps.Pins(x.r.URL.Query().Get("upstream")))})
	}},
	{"POST /api/v1/pins/approve", RoleOperator, approvePins},
	{"DELETE /api/v1/sessions/{session}", RoleOperator, (*API).endSession},
	{"GET /api/v1/signins", RoleViewer, signIns},
	{"POST /api/v1/auth/test", RoleOperator, examine},
	{"GET /api/v1/accounts", RoleViewer, listAccounts},
	{"DELETE /api/v1/accounts/{upstream}", RoleOperator, endAccount},
	{"GET /api/v1/approvals", Approvers, waitingCalls},
	{"POST /api/v1/approvals/{id}", roleApprover, decide},
	{"GET /api/v1/replicas", RoleViewer, func(a *API, x *exchange) error { return x.answer(replicas{some(a.deps.Replicas())}) }},
	{"GET /api/v1/config", RoleViewer, func(a *API, x *exchange) error { return x.answer(a.deps.State()) }},
	{"GET /api/v1/config/text", RoleViewer, configText},
	{"GET /api/v1/config/effective", RoleViewer, effectiveConfig},
	{"GET /api/v1/config/history", RoleViewer, configHistory},
	{"POST /api/v1/config/check", RoleViewer, checkConfig},
	{"POST /api/v1/config/save", RoleOperator, saveConfig},
	{"GET /api/v1/setup", RoleViewer, setupClients},
	{"POST /api/v1/setup", RoleOperator, makeSetup},
	{"POST /api/v1/setup/probe", RoleOperator, probe},
	{"POST /api/v1/reload", RoleOperator, (*API).reload},
	{"POST /api/v1/explain", RoleViewer, (*API).explain},
	{"POST /api/v1/catalog", RoleViewer, listsFor},
	{"POST /api/v1/try", RoleOperator, try},
	{"POST /api/v1/policy/replay", RoleViewer, (*API).replay},
	{"GET /api/v1/policy/rules", RoleViewer, rules},
	{"GET /api/v1/findings", RoleViewer, found},
	{"GET /api/v1/series", RoleViewer, overTime},
	{"GET /api/v1/openapi.json", RoleViewer, func(_ *API, x *exchange) error { return x.write(http.StatusOK, description) }},
}

// description is the API in OpenAPI 3.1.
//
//go:embed openapi.json
var description []byte

// some returns a list that JSON writes as [] if it is empty.
func some[T any](list []T) []T { return append([]T{}, list...) }

// New makes the API.
func New(deps Deps) *API {
	a := &API{deps: deps, mux: http.NewServeMux(), lists: make(chan struct{}, mostLists), tries: make(chan struct{}, mostTries), checks: make(chan struct{}, mostChecks), exams: make(chan struct{}, mostExams)}
	for _, r := range routes {
		a.mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) {
			x := &exchange{w: w, r: req}
			if err := a.serve(r, x); err != nil {
				a.fail(x, err)
			}
		})
	}
	a.mux.HandleFunc(Path, func(w http.ResponseWriter, req *http.Request) {
		x := &exchange{w: w, r: req}
		err := a.enter(x, RoleViewer)
		if err == nil {
			err = refusal(http.StatusNotFound, failure.AdminNotFound, "there is no "+req.Method+" "+req.URL.Path+": see /api/v1/openapi.json")
		}
		a.fail(x, err)
	})
	return a
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	a.mux.ServeHTTP(w, r)
}

func (a *API) serve(r route, x *exchange) error {
	if err := a.enter(x, r.role); err != nil {
		return err
	}
	return r.handle(a, x)
}

// enter lets those in who have a role.
func (a *API) enter(x *exchange, role string) (err error) {
	if x.who, err = a.admit(x.r, role); err == nil && !x.who.May(role) {
		err = refusal(http.StatusForbidden, failure.AdminRole, "this needs the role "+role+", and "+x.who.Name+" has the role "+x.who.role())
	}
	if err != nil {
		a.refused(x, err)
	}
	return err
}

// exchange is a request and its answer.
type exchange struct {
	w   http.ResponseWriter
	r   *http.Request
	who Operator
}

// record records what the client did, or wanted to do.
func (a *API) record(x *exchange, r *record.Record) {
	if a.deps.Origin != nil {
		from := a.deps.Origin(x.r)
		r.ClientAddress, r.UserAgent = from.Address, from.Agent
	}
	a.deps.Record(r)
}

// seesArguments reports whether the answer may have the arguments of calls.
func (x *exchange) seesArguments() bool { return x.who.May(RoleAuditor) }

func (x *exchange) answer(v any) error { return x.answerWith(http.StatusOK, v) }

func (x *exchange) answerWith(status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.write(status, append(text, '\n'))
}

func (x *exchange) write(status int, text []byte) error {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	_, _ = x.w.Write(text) // a client that has left
	return nil
}

// refusalError is an error that the client may read.
type refusalError struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *refusalError) Error() string { return e.Message }

func refusal(status int, name failure.Name, message string) error {
	return &refusalError{status, name.String(), message}
}

// Problem answers are objects with the one member "error".
type errorAnswer struct {
	Error *refusalError `json:"error"`
}

// fail answers with an error. One that is not for the client is logged.
func (a *API) fail(x *exchange, err error) {
	known, ok := errors.AsType[*refusalError](err)
	if !ok {
		a.deps.Log.Error("admin API", failure.Internal.Attr(), "path", x.r.URL.Path, "error", err)
		known = &refusalError{http.StatusInternalServerError, failure.Internal.String(), "internal error: the log has the cause"}
	}
	if known.status == http.StatusUnauthorized {
		x.w.Header().Set("WWW-Authenticate", `Bearer realm="gatehouse admin"`)
	}
	_ = x.answerWith(known.status, errorAnswer{known})
}

package admin

import (
	_ "embed"
	"net/http"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

// Operations of operators, each with the role that it needs.
var (
	ListDecisions = Operation[recent.Query, Page]{
		"GET /api/v1/decisions", RoleViewer, queryOf("limit", "before"), decisions}
	GetCall     = Operation[string, Call]{"GET " + CallPath + "{id}", RoleViewer, segment("id"), oneCall}
	ListSignIns = Operation[recent.Query, SignIns]{"GET /api/v1/signins", RoleViewer, signInsQuery, signIns}
	GetFindings = Operation[None, Findings]{"GET /api/v1/findings", RoleViewer, nothing, findings}
	GetSeries   = Operation[SeriesQuestion, Series]{"GET /api/v1/series", RoleViewer, seriesQuestion, series}

	ListUpstreams = Operation[None, Upstreams]{"GET /api/v1/upstreams", RoleViewer, nothing, upstreams}
	GetUpstream   = Operation[ToolPage, Server]{"GET /api/v1/upstreams/{name}", RoleViewer, toolPage, server}
	ListPins      = Operation[string, Pins]{"GET /api/v1/pins", RoleViewer, parameter("upstream"), pins}
	ApprovePins   = Operation[PinApproval, Approved]{
		"POST /api/v1/pins/approve", RoleOperator, body[PinApproval](mostApproval), approvePins}

	ListSessions = Operation[None, Sessions]{"GET /api/v1/sessions", RoleViewer, nothing, sessions}
	EndSession   = Operation[string, None]{
		"DELETE /api/v1/sessions/{session}", RoleOperator, segment("session"), endSession}
	ListAccounts = Operation[AccountQuestion, Accounts]{
		"GET /api/v1/accounts", RoleViewer, accountQuestion, accounts}
	EndAccount = Operation[AccountQuestion, None]{
		"DELETE /api/v1/accounts/{upstream}", RoleOperator, accountQuestion, endAccount}
	TestToken = Operation[PastedToken, Examined]{
		"POST /api/v1/auth/test", RoleOperator, body[PastedToken](mostBody), examine}

	ListApprovals = Operation[None, Approvals]{"GET /api/v1/approvals", Approvers, nothing, approvals}
	Decide        = Operation[Choice, Decided]{"POST /api/v1/approvals/{id}", roleApprover, choice, decide}

	GetRules    = Operation[None, Policy]{"GET /api/v1/policy/rules", RoleViewer, nothing, rules}
	ReplayDraft = Operation[Draft, *replay.Report]{
		"POST /api/v1/policy/replay", RoleViewer, body[Draft](mostDraft), replayDraft}
	Explain = Operation[Question, Answer]{"POST /api/v1/explain", RoleViewer, body[Question](mostBody), explain}
	ListAs  = Operation[ListQuestion, ListAnswer]{
		"POST /api/v1/catalog", RoleViewer, body[ListQuestion](mostBody), listAs}
	TryTool = Operation[Trial, Tried]{"POST /api/v1/try", RoleOperator, body[Trial](mostTrial), try}

	GetState           = Operation[None, State]{"GET /api/v1/config", RoleViewer, nothing, state}
	GetConfigText      = Operation[None, ConfigText]{"GET /api/v1/config/text", RoleViewer, nothing, configText}
	GetEffectiveConfig = Operation[None, EffectiveConfig]{
		"GET /api/v1/config/effective", RoleViewer, nothing, effectiveConfig}
	GetConfigHistory = Operation[None, ConfigChanges]{
		"GET /api/v1/config/history", RoleViewer, nothing, configHistory}
	CheckConfig = Operation[ConfigDraft, ConfigCheck]{
		"POST /api/v1/config/check", RoleViewer, body[ConfigDraft](mostDraft), checkConfig}
	SaveConfig = Operation[ConfigDraft, Reload]{
		"POST /api/v1/config/save", RoleOperator, body[ConfigDraft](mostDraft), saveConfig}
	ReloadConfig = Operation[None, Reload]{"POST /api/v1/reload", RoleOperator, nothing, reload}
	ListReplicas = Operation[None, Replicas]{"GET /api/v1/replicas", RoleViewer, nothing, replicas}

	GetSetup  = Operation[None, SetupClients]{"GET /api/v1/setup", RoleViewer, nothing, setupClients}
	MakeSetup = Operation[SetupText, SetupDraft]{
		"POST /api/v1/setup", RoleOperator, body[SetupText](mostDraft), makeSetup}
	ProbeServers = Operation[Attempt, Probed]{
		"POST /api/v1/setup/probe", RoleOperator, body[Attempt](mostDraft), probe}
)

// Actions are the operations on a server, by their names.
var Actions = map[string]Operation[string, Acted]{
	Probe:     act(Probe, "upstream probed"),
	Reconnect: act(Reconnect, "upstream reconnected"),
	Disable:   act(Disable, "upstream disabled"),
	Enable:    act(Enable, "upstream enabled"),
}

// operations are all operations.
var operations = []Asked{
	ListDecisions, GetCall, ListSignIns, GetFindings, GetSeries,
	ListUpstreams, GetUpstream, ListPins, ApprovePins,
	Actions[Probe], Actions[Reconnect], Actions[Disable], Actions[Enable],
	ListSessions, EndSession, ListAccounts, EndAccount, TestToken,
	ListApprovals, Decide,
	GetRules, ReplayDraft, Explain, ListAs, TryTool,
	GetState, GetConfigText, GetEffectiveConfig, GetConfigHistory, CheckConfig, SaveConfig, ReloadConfig, ListReplicas,
	GetSetup, MakeSetup, ProbeServers,
}

// description is the API in OpenAPI 3.1.
//
//go:embed openapi.json
var description []byte

// Patterns of what is no Operation: the stream of records, and the description.
const (
	livePattern        = "GET /api/v1/decisions/live"
	descriptionPattern = "GET /api/v1/openapi.json"
)

// New makes the API.
func New(deps Deps) *API {
	a := &API{
		deps:   deps,
		mux:    http.NewServeMux(),
		lists:  make(chan struct{}, mostLists),
		tries:  make(chan struct{}, mostTries),
		checks: make(chan struct{}, mostChecks),
		exams:  make(chan struct{}, mostExams),
	}
	for _, o := range operations {
		a.handle(o.Pattern(), o.needs(), o.serve)
	}
	a.handle(livePattern, RoleViewer, (*API).live)
	a.handle(descriptionPattern, RoleViewer, func(_ *API, x *exchange) error {
		x.w.Header().Set("Content-Type", "application/json")
		_, _ = x.w.Write(description) // a client that has left
		return nil
	})
	a.handle(Path, RoleViewer, func(_ *API, x *exchange) error {
		return refusal(http.StatusNotFound, failure.AdminNotFound,
			"there is no "+x.r.Method+" "+x.r.URL.Path+": see /api/v1/openapi.json")
	})
	return a
}

// AnswerCall tells another replica what an operator with some roles may see of a call.
func (a *API) AnswerCall(w http.ResponseWriter, r *http.Request) {
	x := &exchange{w: w, r: r}
	for _, role := range r.URL.Query()["role"] {
		if slices.Contains(Roles, role) {
			x.who.Roles = append(x.who.Roles, role)
		}
	}
	err := a.allow(x.who, GetCall.role, r.Method, r.URL.Path)
	if err == nil {
		err = GetCall.serve(a, x)
	}
	if err != nil {
		a.fail(x, err)
	}
}

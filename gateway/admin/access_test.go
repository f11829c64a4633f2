package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/policy/foureyes"
)

var good = mcp.Secret("0123456789abcdefghijklmnopqrstuv")

// newTest returns an API, and what it has recorded.
func newTest(t *testing.T, cfg Config) (*API, *[]record.Record) {
	t.Helper()
	kept := recent.New(recent.Deps{Replica: "a"})
	t.Cleanup(func() { kept.Close(context.Background()) })
	var records []record.Record
	world := world{}
	return New(Deps{
		Config:        func() Config { return cfg },
		Origin:        func(*http.Request) mcp.Origin { return mcp.Origin{} },
		Identify:      identify,
		Recent:        kept,
		Journal:       journal(t, func(r *record.Record) { records = append(records, *r) }),
		FourEyes:      foureyes.New(foureyes.Deps{}),
		Replicas:      fleet{},
		Self:          "a",
		Servers:       world,
		Configuration: world,
		Settings:      settings{},
		Sessions:      world,
		Finder:        world,
		WhatIf:        world,
		Log:           slog.New(slog.DiscardHandler),
	}), &records
}

// journal passes records on.
func journal(t *testing.T, also func(*record.Record)) *audit.Journal {
	t.Helper()
	j, err := audit.New(audit.Config{}, audit.Deps{Also: also})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// world is a gateway with nothing in it. Only the server crm can be acted on.
type world struct {
	WhatIf
	Settings
	examined func(context.Context) Examined
}

func (world) Upstreams() []Upstream                       { return nil }
func (world) Server(ToolPage) (Server, error)             { return Server{}, ErrNoServer }
func (world) Pins(string) []Pin                           { return nil }
func (world) Approve(PinApproval) (Approved, error)       { return Approved{}, NotNow("not now") }
func (world) State() State                                { return State{} }
func (world) Policy() Policy                              { return Policy{} }
func (world) RuleAt(rule string) string                   { return rule + ":1" }
func (world) Reload() (Reload, error)                     { return Reload{}, ErrNoFile }
func (world) All(context.Context) ([]Session, []string)   { return nil, nil }
func (world) EndAnywhere(context.Context, string) error   { return ErrNoSession }
func (world) Findings(context.Context) ([]Finding, error) { return nil, nil }
func (world) Explain(context.Context, Question) (Answer, error) {
	return Answer{}, nil
}
func (world) Replay(context.Context, Draft) (*replay.Report, error) {
	return &replay.Report{}, nil
}
func (w world) Examine(ctx context.Context, _, _ string) (Examined, error) {
	return w.examined(ctx), nil
}
func (world) Act(_ context.Context, a Action) (Acted, error) {
	if a.Upstream == "busy" {
		return Acted{}, NotNow("not now")
	}
	return Acted{Changed: a.Upstream == "crm"}, nil
}

// fleet is one replica alone.
type fleet struct{}

func (fleet) All() []Replica { return nil }
func (fleet) CallAt(context.Context, string, string, []string) ([]byte, error) {
	return nil, errors.New("it is away")
}

// settings check a text by wait.
type settings struct {
	Settings
	wait func()
}

func (settings) Saves() bool { return false }
func (s settings) Check(string, bool) ConfigCheck {
	s.wait()
	return ConfigCheck{}
}

// here makes a request one of this machine itself.
func here(r *http.Request) *http.Request {
	r.RemoteAddr, r.Host = "127.0.0.1:1234", "localhost"
	return r
}

// identify knows two access tokens.
func identify(r *http.Request) (mcp.Caller, error) {
	switch r.Header.Get("Authorization") {
	case "Bearer of-bob":
		return mcp.Caller{Issuer: "https://login.example.com", Subject: "bob"}, nil
	case "Bearer of-whom":
		return mcp.Caller{}, &auth.RefusedError{Status: http.StatusServiceUnavailable, Name: failure.IssuerDown,
			Text: "the issuer is away"}
	}
	return mcp.Caller{}, &auth.RefusedError{Status: http.StatusUnauthorized, Name: failure.TokenInvalid, Text: "no token"}
}

// TestChecksWait: one text is checked at a time, and nobody waits for ever.
func TestChecksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newTest(t, Config{Loopback: RoleViewer})
		a.deps.Settings = settings{wait: func() { time.Sleep(time.Minute) }}
		check := func() int {
			w := httptest.NewRecorder()
			a.ServeHTTP(w, here(httptest.NewRequest(http.MethodPost, "/api/v1/config/check", strings.NewReader("{}"))))
			return w.Code
		}
		first := make(chan int, 1)
		go func() { first <- check() }()
		synctest.Wait()
		if second := check(); second != http.StatusServiceUnavailable {
			t.Errorf("the second: %d", second)
		}
		if got := <-first; got != http.StatusOK {
			t.Errorf("the first: %d", got)
		}
		if third := check(); third != http.StatusOK {
			t.Errorf("the third: %d", third)
		}
	})
}

// TestDescription compares the routes with openapi.json, in both directions.
func TestDescription(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct{ Description string }
	}
	if err := json.Unmarshal(description, &doc); err != nil {
		t.Fatal(err)
	}
	described := make(map[string]string)
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			described[strings.ToUpper(method)+" "+path] = operation.Description
		}
	}
	roles := map[string]string{livePattern: RoleViewer, descriptionPattern: RoleViewer}
	for _, o := range operations {
		roles[o.Pattern()] = o.needs()
	}
	for pattern, role := range roles {
		if want := "Role: " + role + "."; described[pattern] != want {
			t.Errorf("openapi.json says of %s %q, want %q", pattern, described[pattern], want)
		}
		delete(described, pattern)
	}
	for pattern := range described {
		t.Errorf("openapi.json has %s, and the API has not", pattern)
	}
}

// TestAccess: who gets in, with which role, and what others are told. Web pages get nowhere
// without a token (cross-site requests, DNS rebinding).
func TestAccess(t *testing.T) {
	tokens := []Token{{"v", RoleViewer, good}, {"o", RoleOperator, good + "1"}, {"a", RoleAuditor, good + "2"}}
	for _, tt := range []struct {
		name         string
		loopback     string
		trusted      bool
		header       http.Header
		method, path string
		status       int
		code         string
	}{
		{"no token", "", true, nil, "GET", "/api/v1/upstreams", 401, "GH-ADMIN-TOKEN-MISSING"},
		{"viewer", "", false, bearer("Bearer " + good), "GET", "/api/v1/upstreams", 200, ""},
		{"case of the scheme", "", false, bearer("bearer " + good), "GET", "/api/v1/upstreams", 200, ""},
		{"another scheme", "", false, bearer("Basic " + good), "GET", "/api/v1/upstreams", 401, "GH-ADMIN-TOKEN-INVALID"},
		{"a part of a token", "", false, bearer("Bearer " + good[:31]), "GET", "/api/v1/upstreams", 401,
			"GH-ADMIN-TOKEN-INVALID"},
		{"an empty token", "", false, bearer("Bearer "), "GET", "/api/v1/upstreams", 401, "GH-ADMIN-TOKEN-INVALID"},
		{"two headers", "", false, bearer("Bearer "+good, "Bearer "+good), "GET", "/api/v1/upstreams", 401,
			"GH-ADMIN-TOKEN-INVALID"},
		{"a bad token from loopback", RoleOperator, true, bearer("Bearer x"), "GET", "/api/v1/upstreams", 401,
			"GH-ADMIN-TOKEN-INVALID"},
		{"viewer acts", "", false, bearer("Bearer " + good), "POST", "/api/v1/reload", 403, "GH-ADMIN-ROLE"},
		{"auditor acts", "", false, bearer("Bearer " + good + "2"), "DELETE", "/api/v1/sessions/x", 403, "GH-ADMIN-ROLE"},
		{"operator acts", "", false, bearer("Bearer " + good + "1"), "DELETE", "/api/v1/sessions/x", 404,
			"GH-ADMIN-NOT-FOUND"},
		{"operator reloads", "", false, bearer("Bearer " + good + "1"), "POST", "/api/v1/reload", 409, "GH-ADMIN-REQUEST"},
		{"loopback", RoleViewer, true, nil, "GET", "/api/v1/upstreams", 200, ""},
		{"loopback acts", RoleViewer, true, nil, "POST", "/api/v1/reload", 403, "GH-ADMIN-ROLE"},
		{"not from loopback", RoleViewer, false, nil, "GET", "/api/v1/upstreams", 401, "GH-ADMIN-TOKEN-MISSING"},
		{"another site's page", RoleOperator, true, http.Header{"Sec-Fetch-Site": {"cross-site"}}, "POST", "/api/v1/reload",
			401, "GH-ADMIN-TOKEN-MISSING"},
		{"another site's token", RoleOperator, true, http.Header{"Sec-Fetch-Site": {"cross-site"}}, "POST",
			"/api/v1/auth/test", 401, "GH-ADMIN-TOKEN-MISSING"},
		{"another port's page", RoleOperator, true, http.Header{"Sec-Fetch-Site": {"same-site"}}, "POST", "/api/v1/reload",
			401, "GH-ADMIN-TOKEN-MISSING"},
		{"typed by the user", RoleViewer, true, http.Header{"Sec-Fetch-Site": {"none"}}, "GET", "/api/v1/upstreams", 200, ""},
		{"an access token", "", false, bearer("Bearer of-bob"), "GET", "/api/v1/approvals", 200, ""},
		{"viewer sees what waits", "", false, bearer("Bearer " + good), "GET", "/api/v1/approvals", 200, ""},
		{"an unknown access token", "", false, bearer("Bearer x"), "GET", "/api/v1/approvals", 401, "GH-ADMIN-TOKEN-INVALID"},
		{"no access token", "", false, nil, "GET", "/api/v1/approvals", 401, "GH-ADMIN-TOKEN-MISSING"},
		{"issuer away", "", false, bearer("Bearer of-whom"), "GET", "/api/v1/approvals", 503, "GH-ISSUER-DOWN"},
		{"an access token elsewhere", RoleViewer, true, bearer("Bearer of-bob"), "GET", "/api/v1/upstreams", 401,
			"GH-ADMIN-TOKEN-INVALID"},
		{"an access token on an unknown path", "", false, bearer("Bearer of-bob"), "GET", "/api/v1/none", 401,
			"GH-ADMIN-TOKEN-INVALID"},
		{"operator decides", "", false, bearer("Bearer " + good + "1"), "POST", "/api/v1/approvals/x", 403, "GH-ADMIN-ROLE"},
		{"loopback decides", RoleOperator, true, nil, "POST", "/api/v1/approvals/x", 403, "GH-ADMIN-ROLE"},
		{"approver decides nothing", "", false, bearer("Bearer of-bob"), "POST", "/api/v1/approvals/x", 400,
			"GH-ADMIN-REQUEST"},
		{"unknown path", "", false, bearer("Bearer " + good), "GET", "/api/v1/none", 404, "GH-ADMIN-NOT-FOUND"},
		{"unknown path without token", "", false, nil, "GET", "/api/v1/none", 401, "GH-ADMIN-TOKEN-MISSING"},
		{"unknown method", "", false, bearer("Bearer " + good), "PUT", "/api/v1/reload", 404, "GH-ADMIN-NOT-FOUND"},
		{"bad parameter", "", false, bearer("Bearer " + good), "GET", "/api/v1/decisions?usr=a", 400, "GH-ADMIN-REQUEST"},
		{"parameter twice", "", false, bearer("Bearer " + good), "GET", "/api/v1/decisions?user=a&user=b", 400,
			"GH-ADMIN-REQUEST"},
		{"bad time", "", false, bearer("Bearer " + good), "GET", "/api/v1/decisions?since=soon", 400, "GH-ADMIN-REQUEST"},
		{"bad limit", "", false, bearer("Bearer " + good), "GET", "/api/v1/decisions?limit=0", 400, "GH-ADMIN-REQUEST"},
		{"bad cursor", "", false, bearer("Bearer " + good), "GET", "/api/v1/decisions?before=x", 400, "GH-ADMIN-REQUEST"},
		{"bad event id", "", false, http.Header{"Authorization": {"Bearer " + string(good)}, "Last-Event-Id": {"x"}}, "GET",
			"/api/v1/decisions/live", 400, "GH-ADMIN-REQUEST"},
		{"no draft", "", false, bearer("Bearer " + good), "POST", "/api/v1/policy/replay", 400, "GH-ADMIN-REQUEST"},
		{"unknown step", "", false, bearer("Bearer " + good), "GET", "/api/v1/series?step=1s", 400, "GH-ADMIN-REQUEST"},
		{"too fine for so long", "", false, bearer("Bearer " + good), "GET", "/api/v1/series?step=10s&last=11m", 400,
			"GH-ADMIN-REQUEST"},
		{"too long", "", false, bearer("Bearer " + good), "GET", "/api/v1/series?last=121m", 400, "GH-ADMIN-REQUEST"},
		{"unknown parameter", "", false, bearer("Bearer " + good), "GET", "/api/v1/series?server=crm", 400,
			"GH-ADMIN-REQUEST"},
		{"bad body", "", false, bearer("Bearer " + good), "POST", "/api/v1/explain", 400, "GH-ADMIN-REQUEST"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, records := newTest(t, Config{Tokens: tokens, Loopback: tt.loopback})
			r := httptest.NewRequest(tt.method, tt.path, nil)
			if tt.trusted {
				r = here(r)
			}
			for name, values := range tt.header {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			var answer struct {
				Error struct{ Code, Message string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != tt.status ||
				answer.Error.Code != tt.code || (tt.code != "") != (answer.Error.Message != "") {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.code)
			}
			refused := w.Code == 401 || w.Code == 403 || w.Code == 503
			if refused != (len(*records) == 1 && (*records)[0].Event == "refused" && (*records)[0].Error == tt.code) ||
				!refused && len(*records) != 0 {
				t.Errorf("recorded: %+v", *records)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") || strings.Contains(w.Body.String(), string(good)) {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
		})
	}
}

// TestAsked: who asks without HTTP needs the same roles, and is recorded alike.
func TestAsked(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/console/x", nil)
	for _, o := range operations {
		a, records := newTest(t, Config{})
		err := a.Ask(r, Operator{Name: "nobody"}, o, nil, nil)
		refused, ok := errors.AsType[*Refusal](err)
		if !ok || refused.Status != http.StatusForbidden {
			t.Errorf("%s: %v", o.Pattern(), err)
		}
		if all := *records; len(all) != 1 || all[0].Event != "refused" || all[0].Method+" "+all[0].Name != o.Pattern() {
			t.Errorf("%s: recorded %+v", o.Pattern(), all)
		}
	}
	a, records := newTest(t, Config{})
	viewer, operator := Operator{Name: "ann", Roles: []string{RoleViewer}},
		Operator{Name: "ann", Roles: []string{RoleOperator}}
	if _, err := Actions[Disable].Ask(a, r, viewer, "crm"); err == nil {
		t.Error("a viewer disables a server")
	}
	if done, err := Actions[Disable].Ask(a, r, operator, "crm"); err != nil || !done.Changed {
		t.Errorf("an operator: %v, %v", done, err)
	}
	if all := *records; len(all) != 2 || all[1].Event != "upstream disabled" || all[1].User != "ann" ||
		all[1].Upstream != "crm" {
		t.Errorf("recorded %+v", all)
	}
}

func bearer(headers ...mcp.Secret) http.Header {
	h := http.Header{}
	for _, one := range headers {
		h.Add("Authorization", string(one))
	}
	return h
}

// TestManyRefused: whoever tries tokens does not fill the records.
func TestManyRefused(t *testing.T) {
	a, records := newTest(t, Config{Loopback: RoleViewer})
	for range 1000 {
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/upstreams", nil))
	}
	if n := len(*records); n == 0 || n > 40 {
		t.Errorf("%d records", n)
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"none", Config{}, nil},
		{"loopback", Config{Loopback: RoleAuditor}, nil},
		{"tokens", Config{Tokens: []Token{{"a", RoleViewer, good}, {"b@example.com", RoleOperator, good + "1"}}}, nil},
		{"unknown roles", Config{Loopback: "root", Tokens: []Token{{"a", "root", good}}},
			[]string{`tokens[0]: role: "root"`, `loopback: "root"`}},
		{"short token", Config{Tokens: []Token{{"a", RoleViewer, "short"}}}, []string{"tokens[0]: token: "}},
		{"twice", Config{Tokens: []Token{{"a", RoleViewer, good}, {"a", RoleViewer, good}}},
			[]string{`tokens[1]: name: tokens[0] is called "a" already`, "tokens[1]: token: is that of tokens[0], too"}},
		{"bad name", Config{Tokens: []Token{{"a b", RoleViewer, good}}}, []string{`tokens[0]: name: "a b"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v lacks %q", err, want)
				}
			}
		})
	}
}

package console

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// canned is an API whose answers are made up: by method and path without /api/v1, such as
// "GET /sessions". What is asked is kept.
type canned struct {
	answers map[string]string
	status  map[string]int // other than 200
	asked   []string       // method, path, and the question
	as      admin.Operator
}

func (c *canned) Ask(_ *http.Request, who admin.Operator, o admin.Asked, q, into any) error {
	c.as = who
	what := strings.Replace(o.Pattern(), "/api/v1", "", 1)
	named := ""
	switch q := q.(type) {
	case string:
		named = q
	case admin.ToolPage:
		named = q.Upstream
	case admin.Choice:
		named = q.ID
	}
	if before, rest, found := strings.Cut(what, "{"); found {
		_, after, _ := strings.Cut(rest, "}")
		what = before + named + after
	}
	return c.answer(what, q, into)
}

func (c *canned) Follow(_ *http.Request, who admin.Operator, q admin.LiveQuestion,
	send func([]admin.Decision, int64) error) error {
	c.as = who
	var news struct {
		Decisions []admin.Decision
		Missed    int64
	}
	if err := c.answer("GET /decisions/live", q, &news); err != nil {
		return err
	}
	if err := send(nil, 0); err != nil {
		return err
	}
	return send(news.Decisions, news.Missed)
}

func (c *canned) answer(what string, q, into any) error {
	text, err := json.Marshal(q)
	if err != nil {
		return err
	}
	asked := what
	if _, named := q.(string); !named && string(text) != "{}" {
		asked += " " + string(text)
	}
	c.asked = append(c.asked, asked)
	answer, ok := c.answers[what]
	if !ok {
		return &admin.Refusal{Status: http.StatusNotFound, Code: "GH-ADMIN-NOT-FOUND",
			Message: "the test has no answer for " + what}
	}
	switch c.status[what] {
	case 0:
		if answer == "" {
			return nil
		}
		return json.Unmarshal([]byte(answer), into)
	case http.StatusUnprocessableEntity:
		bad := &admin.BadDraft{}
		return cmp.Or(json.Unmarshal([]byte(answer), bad), error(bad))
	}
	refused := struct{ Error *admin.Refusal }{&admin.Refusal{Status: c.status[what]}}
	return cmp.Or(json.Unmarshal([]byte(answer), &refused), error(refused.Error))
}

// desk is a console for a test.
type desk struct {
	*Console
	api   *canned
	guard *Guard
	cfg   Config
}

// crew has the roles that their groups name.
type crew func() Config

func (c crew) Console() Config            { return c() }
func (crew) Roles(c *mcp.Caller) []string { return c.Groups }
func (crew) SignsIn(c *mcp.Caller) bool   { return c.Issuer != "https://former" }
func (crew) Approves(c *mcp.Caller) bool  { return c.Subject == "approver" }

// newDesk makes a console that everybody on this machine may use with a role.
func newDesk(t *testing.T, role string, answers map[string]string) *desk {
	t.Helper()
	key, err := seal.NewRandom("test")
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{api: &canned{answers: answers, status: make(map[string]int)}, cfg: Config{Loopback: role}}
	d.guard = NewGuard("http://127.0.0.1:9090", crew(func() Config { return d.cfg }),
		signin.NewSessions(expiring.Base{}, key))
	d.Console, err = New(Deps{
		Guard: d.guard, Flow: func() *signin.Flow { return nil }, SignedIn: func(*http.Request, mcp.Caller, error) {},
		API: d.api, Version: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// get opens a page, whose path is without /console.
func (d *desk) get(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9090"+Root+path, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// post sends a form of a page of the console: names and values in turn.
func (d *desk) post(path string, pairs ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, d.form(path, pairs...))
	return w
}

func (d *desk) form(path string, pairs ...string) *http.Request {
	form := make(url.Values)
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9090"+Root+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:1234"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

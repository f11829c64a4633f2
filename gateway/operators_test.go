package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/replay"
	"github.com/gatehouse-mcp/gatehouse/gateway/whatif"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// operators is the API of a gateway, each of whose answers has to be as its description says.
type operators struct {
	url     string
	schemas map[string]any
	answers *jsonschema.Resolved
	seen    map[string]bool // operations, with their statuses
}

const (
	viewerToken   = "viewer-0123456789abcdefghijklmnop"
	operatorToken = "operator-0123456789abcdefghijklmn"
	auditorToken  = "auditor-0123456789abcdefghijklmno"
)

const operatorsConfig = `admin:
  listen: 127.0.0.1:0
  api:
    tokens:
    - {name: sees, role: viewer, token: ` + viewerToken + `}
    - {name: acts, role: operator, token: ` + operatorToken + `}
    - {name: audits, role: auditor, token: ` + auditorToken + `}
`

// described reads the description of the API once, and compiles its schemas: resolving them costs
// more than all else that these tests do. A value is an object with an answer, by its schema's name.
var described = sync.OnceValues(func() (d struct {
	api     map[string]any
	answers *jsonschema.Resolved
}, err error) {
	text, err := os.ReadFile("admin/openapi.json")
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")),
		&d.api); err != nil {
		return d, err
	}
	all := d.api["components"].(map[string]any)["schemas"].(map[string]any)
	refs := map[string]any{"": map[string]string{"type": "object"}} // the description itself
	for name := range all {
		refs[name] = map[string]string{"$ref": "#/$defs/" + name}
	}
	if text, err = json.Marshal(map[string]any{"properties": refs, "additionalProperties": false,
		"$defs": all}); err != nil {
		return d, err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(text, &schema); err != nil {
		return d, err
	}
	d.answers, err = schema.Resolve(nil)
	return d, err
})

func operatorsOf(t *testing.T, c *configured) *operators {
	t.Helper()
	d, err := described()
	if err != nil {
		t.Fatal(err)
	}
	return &operators{
		url: "http://" + c.AdminAddr().String(), schemas: d.api, answers: d.answers, seen: make(map[string]bool),
	}
}

// at returns a place in the description.
func (o *operators) at(t *testing.T, path ...string) any {
	t.Helper()
	var value any = o.schemas
	for _, name := range path {
		object, _ := value.(map[string]any)
		if value = object[name]; value == nil {
			t.Fatalf("the description has no %s", strings.Join(path, " "))
		}
	}
	return value
}

// ask asks the API. operation is the path in its description.
func (o *operators) ask(t *testing.T, token, method, operation, path, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	responses := o.at(t, "paths", operation, strings.ToLower(method), "responses").(map[string]any)
	code := fmt.Sprint(resp.StatusCode)
	if responses[code] == nil {
		code = "default"
	}
	o.seen[method+" "+operation] = true
	content, _ := responses[code].(map[string]any)["content"].(map[string]any)
	if content == nil {
		if len(text) > 0 {
			t.Errorf("%s %s: %d with a body: %s", method, path, resp.StatusCode, text)
		}
		return resp.StatusCode, ""
	}
	media := content["application/json"].(map[string]any)["schema"].(map[string]any)
	schema, _ := media["$ref"].(string)
	o.validate(t, strings.TrimPrefix(schema, "#/$defs/"), string(text))
	return resp.StatusCode, string(text)
}

// validate compares an answer with a schema of the description.
func (o *operators) validate(t *testing.T, schema, answer string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(answer), &value); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if err := o.answers.Validate(map[string]any{schema: value}); err != nil {
		t.Errorf("%s: %v\n%s", schema, err, answer)
	}
}

// TestOperators: an operator sees what has happened and why, ends a session and reloads; each
// answer is as the description says, and everything in the description can be asked.
func TestOperators(t *testing.T) {
	site := newSite(t, false, one("work", saying("x")))
	text := operatorsConfig + fmt.Sprintf(`upstreams:
- {name: up, url: %q, pinning: {mode: warn}}
- {name: gone, url: "http://127.0.0.1:1/mcp"}
policy:
  default: allow
  rules:
  - {name: kept, allow: ["tools:up/work"], record: {arguments: full}}
  - {name: not now, deny: ["tools:up/work"], when: has(args.later)}
limits: [{name: few, what: ["tools:up/*"], rate: 100/h}]
views: [{name: small, show: ["tools:up/*"]}]
audit: {sinks: [{type: file, path: %q}]}
pinning: {file: %q}
`, site.url, filepath.Join(t.TempDir(), "audit.jsonl"), emptyLock(t))
	c := startUnwatched(t, text)
	o := operatorsOf(t, c)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "7"},
		&sdk.ClientOptions{}).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: c.URL(), DisableStandaloneSSE: true},
		&sdk.ClientSessionOptions{ProtocolVersion: stateful})
	if err != nil {
		t.Fatal(err)
	}
	for _, arguments := range []map[string]any{{"canary": 1}, {"canary": 2, "later": true}} {
		// the second one is refused
		_, _ = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "up__work", Arguments: arguments})
	}

	const decisions = "/api/v1/decisions"
	page := func(token, query string) (p admin.Page, answer string) {
		t.Helper()
		status, answer := o.ask(t, token, http.MethodGet, decisions, decisions+query, "")
		if status != http.StatusOK || json.Unmarshal([]byte(answer), &p) != nil {
			t.Fatalf("%s: %d %s", query, status, answer)
		}
		return p, answer
	}
	found, _ := page(viewerToken, "?decision=deny&since=1h&name=up/work&rule=not+now")
	denied := found.Decisions
	if len(denied) != 1 || denied[0].Rule != "not now" || denied[0].RuleAt != c.file+":16" ||
		denied[0].Error != "GH-ARGUMENTS-DENIED" || denied[0].Replica == "" {
		t.Fatalf("denied: %+v", denied)
	}
	for token, sees := range map[string]bool{viewerToken: false, operatorToken: false, auditorToken: true} {
		p, answer := page(token, "?name=up__work&kind=call")
		if len(p.Decisions) != 2 || strings.Contains(answer, "canary") != sees ||
			strings.Contains(answer, "arguments_digest") != sees {
			t.Errorf("%s sees %s", token, answer)
		}
	}
	first, _ := page(viewerToken, "?limit=1")
	second, _ := page(viewerToken, "?limit=1000&before="+first.Next)
	if first.Next == "" || second.Next != "" || len(second.Decisions) < 4 || second.Decisions[0].Cursor >= first.Next {
		t.Errorf("pages: %v, then %v", first, second)
	}

	status, answer := o.ask(t, viewerToken, http.MethodGet, "/api/v1/calls/{id}", "/api/v1/calls/"+denied[0].ID, "")
	var call admin.Call
	if status != http.StatusOK || json.Unmarshal([]byte(answer), &call) != nil || call.Record.Rule != "not now" ||
		call.Now != nil || strings.Contains(answer, "not recorded") {
		t.Fatalf("%d %s", status, answer)
	}
	said := make(map[string]string)
	for _, l := range call.Layers {
		said[l.Layer] = l.Said
	}
	if want := "deny, rule not now, at " + c.file + `:16, rule "not now": when is true`; said["policy"] != want ||
		!strings.Contains(said["server"], "up: work") || !strings.Contains(said["answer"], "GH-ARGUMENTS-DENIED") {
		t.Errorf("the layers say %q", said)
	}
	if status, _ := o.ask(t, viewerToken, http.MethodGet, "/api/v1/calls/{id}", "/api/v1/calls/none",
		""); status != http.StatusNotFound {
		t.Errorf("an unknown call: %d", status)
	}

	for path, want := range map[string][]string{
		"/api/v1/upstreams": {`"name":"up","state":"ready"`, `"tokens":`, `"era":"stateful"`, `"tools":1`,
			`"name":"gone","state":"down"`, `"error_code":"GH-UPSTREAM-DOWN"`},
		"/api/v1/replicas": {`"self":true`},
		"/api/v1/config":   {`"target":"http://127.0.0.1:1/mcp"`, `"show":["tools:up/*"]`, `"limits":["few"]`},
		"/api/v1/pins": {`"upstream":"up","list":"tools","name":"work","new":true`, `"hidden":false,"definition":{`,
			`"digest":"sha256:`, `+name:`},
		"/api/v1/findings": {`"severity":"critical","kind":"server","subject":"gone","what":"The server gone is down."`,
			`"kind":"pin","subject":"up"`},
		"/api/v1/policy/rules": {`"default":"allow"`,
			`"name":"kept","at":"` + c.file + `:15","who":"everybody","allow":["tools:up/work"],"decided":1,"last":"`,
			`"name":"not now"`, `"when":"has(args.later)","decided":1`},
		"/api/v1/signins":      {`"failures":[]`, `"last":[]`},
		"/api/v1/series":       {`"calls":1,"errors":0,"refused":1`, `"upstreams":[{"name":"up",`},
		"/api/v1/openapi.json": {`"openapi"`},
	} {
		status, answer := o.ask(t, viewerToken, http.MethodGet, path, path, "")
		for _, want := range want {
			if status != http.StatusOK || !strings.Contains(answer, want) {
				t.Errorf("%s: %d, no %s: %s", path, status, want, answer)
			}
		}
		for _, secret := range []string{viewerToken, operatorToken, auditorToken} {
			if strings.Contains(answer, secret) {
				t.Errorf("%s has a token", path)
			}
		}
	}

	const approvals = "/api/v1/approvals"
	if status, answer := o.ask(t, viewerToken, http.MethodGet, approvals, approvals, ""); status != http.StatusOK ||
		answer != "{\"approvals\":[]}\n" {
		t.Errorf("approvals: %d %s", status, answer)
	}
	if status, answer := o.ask(t, auditorToken, http.MethodPost, approvals+"/{id}", approvals+"/x",
		"{}"); status != http.StatusForbidden || !strings.Contains(answer, "GH-ADMIN-ROLE") {
		t.Errorf("an auditor decides: %d %s", status, answer)
	}

	const reload, asks = "/api/v1/reload", "/api/v1/explain"
	if status, answer := o.ask(t, viewerToken, http.MethodPost, reload, reload, ""); status != http.StatusForbidden ||
		!strings.Contains(answer, "GH-ADMIN-ROLE") {
		t.Errorf("a viewer reloads: %d %s", status, answer)
	}
	c.write(t, text+"no_such_key: 1\n")
	if status, answer := o.ask(t, operatorToken, http.MethodPost, reload, reload,
		""); status != http.StatusUnprocessableEntity || !strings.Contains(answer, `"line":21`) {
		t.Errorf("a bad file: %d %s", status, answer)
	}
	c.write(t, strings.Replace(text, viewerToken, "another-0123456789abcdefghijklmno", 1))
	if status, answer := o.ask(t, operatorToken, http.MethodPost, reload, reload, ""); status != http.StatusOK ||
		!strings.Contains(answer, `"applied":true`) {
		t.Errorf("another token: %d %s", status, answer)
	}
	if status, _ := o.ask(t, viewerToken, http.MethodGet, decisions, decisions, ""); status != http.StatusUnauthorized {
		t.Errorf("the former token: %d", status)
	}

	question := `{"method":"tools/call","name":"up/work","args":{"later":1}}`
	want, err := whatif.Explain(t.Context(), c.graph().cfg,
		admin.Question{Method: mcp.MethodToolsCall, Name: "up/work", Args: []byte(`{"later":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	var got admin.Answer
	if status, answer := o.ask(t, auditorToken, http.MethodPost, asks, asks, question); status != http.StatusOK ||
		json.Unmarshal([]byte(answer), &got) != nil || got.Effect != "deny" || got.Rule != "not now" ||
		!strings.HasSuffix(got.RuleAt, ":16") || got.Text != want.Text {
		t.Errorf("explain: %d %s, want %s", status, answer, want.Text)
	}
	if status, _ := o.ask(t, auditorToken, http.MethodPost, asks, asks,
		`{"method":"tools/list"}`); status != http.StatusBadRequest {
		t.Errorf("explain without sense: %d", status)
	}

	replays(t, o, text)
	serversAsked(t, o)

	const all = "/api/v1/sessions"
	sessions := func() (s struct{ Sessions []admin.Session }) {
		t.Helper()
		status, answer := o.ask(t, auditorToken, http.MethodGet, all, all, "")
		if status != http.StatusOK || json.Unmarshal([]byte(answer), &s) != nil || strings.Contains(answer, session.ID()) {
			t.Errorf("sessions: %d %s", status, answer)
		}
		return s
	}
	open := sessions().Sessions
	if len(open) != 1 || open[0].ClientName != "tester" || open[0].ClientVersion != "7" ||
		open[0].Session != denied[0].Session || open[0].Started.IsZero() || open[0].Used.Before(open[0].Started) {
		t.Fatalf("sessions: %+v", open)
	}
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header.Set("Accept", "text/event-stream")
	stream.Header.Set("Mcp-Session-Id", session.ID())
	opened, err := http.DefaultClient.Do(stream)
	if err != nil || opened.StatusCode != http.StatusOK {
		t.Fatalf("%+v %v", opened, err)
	}
	defer opened.Body.Close()
	eventually(t, "the client's stream is shown",
		func() bool { now := sessions().Sessions; return len(now) == 1 && now[0].Streams == 1 })
	for _, end := range []struct {
		token string
		want  int
	}{{auditorToken, http.StatusForbidden}, {operatorToken, http.StatusNoContent}} {
		if status, _ := o.ask(t, end.token, http.MethodDelete, all+"/{session}", all+"/"+open[0].Session,
			""); status != end.want {
			t.Errorf("ending it with %s: %d, want %d", end.token, status, end.want)
		}
	}
	if len(sessions().Sessions) != 0 {
		t.Error("the session has not ended")
	}
	if status, _ := o.ask(t, operatorToken, http.MethodDelete, all+"/{session}", all+"/"+open[0].Session,
		""); status != http.StatusNotFound {
		t.Errorf("ending it again: %d", status)
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "up__work"}); err == nil {
		t.Error("the ended session is served")
	}

	acts, _ := page(auditorToken, "?kind=admin&user=acts")
	var events []string
	for _, a := range acts.Decisions {
		events = append(events, a.Event)
	}
	if got := strings.Join(events,
		", "); got != "session ended, definition approved, upstream enabled, upstream disabled, upstream reconnected, upstream probed, upstream probed, reload applied, reload refused" {
		t.Errorf("recorded: %s", got)
	}
	o.seen["GET /api/v1/decisions/live"] = true // see TestLive
	for _, one := range []string{"GET /api/v1/config/text", "GET /api/v1/config/effective", "GET /api/v1/config/history",
		"POST /api/v1/config/check", "POST /api/v1/config/save",
		"GET /api/v1/setup", "POST /api/v1/setup", "POST /api/v1/setup/probe",
		"POST /api/v1/catalog", "POST /api/v1/try", // see TestListsOfCallers
		"GET /api/v1/accounts", "DELETE /api/v1/accounts/{upstream}", // see TestAccountsOfUsers
		"POST /api/v1/auth/test", // see TestTestedTokens
	} {
		o.seen[one] = true // see TestConfigurationOfOperators and TestSetupOfOperators
	}
	for path, methods := range o.at(t, "paths").(map[string]any) {
		for method := range methods.(map[string]any) {
			if !o.seen[strings.ToUpper(method)+" "+path] {
				t.Errorf("%s %s was not asked", method, path)
			}
		}
	}
}

func manyRules() string {
	var b strings.Builder
	for i := range 2001 {
		fmt.Fprintf(&b, "  - {name: r%d, allow: [\"tools:up/x\"]}\n", i)
	}
	return b.String()
}

// replays runs drafts against the two calls of TestOperators: a viewer learns nothing about their
// arguments, and nobody what references stand for.
func replays(t *testing.T, o *operators, text string) {
	t.Helper()
	const path = "/api/v1/policy/replay"
	ask := func(token, config string) (status int, answer string, r replay.Report) {
		t.Helper()
		body, err := json.Marshal(admin.Draft{Config: config, Since: "1h"})
		if err != nil {
			t.Fatal(err)
		}
		status, answer = o.ask(t, token, http.MethodPost, path, path, string(body))
		if status == http.StatusOK {
			err = json.Unmarshal([]byte(answer), &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return status, answer, r
	}
	draft := strings.Replace(text, "has(args.later)", "has(args.canary) && args.canary == 1", 1)
	if status, answer, r := ask(auditorToken, draft); status != http.StatusOK || r.Calls != 2 ||
		r.Changed[replay.Refused] != 1 || !strings.Contains(answer, `"rule_at":"draft:15"`) {
		t.Errorf("an auditor's replay: %d %s", status, answer)
	}
	if status, answer, r := ask(operatorToken, draft); status != http.StatusOK || r.Calls != 2 ||
		r.Changed[replay.Untold] != 2 {
		t.Errorf("an operator's replay: %d %s", status, answer)
	}
	if status, answer, r := ask(operatorToken, text); status != http.StatusOK || r.Same != 2 ||
		len(r.UnusedNow) != 0 && r.UnusedNow[0].Untold != 2 {
		t.Errorf("nothing is changed: %d %s", status, answer)
	}
	t.Setenv("GATEHOUSE_CANARY", "the-canary-of-this-test")
	for _, tt := range []struct{ config, want string }{
		{"listen: 1\n", `"line":1`},
		{"", `"problems":[{`},
		// a reference without quotes
		{strings.Replace(text, "name: gone", "name: ${env:GATEHOUSE_CANARY}", 1), "not valid YAML"},
		{strings.Replace(text, "has(args.later)", `'caller.user == "${env:GATEHOUSE_CANARY}"'`, 1),
			"policy: has a reference, which is not looked up here"},
		{strings.Replace(text, "name: small", `name: "${env:GATEHOUSE_CANARY}"`, 1), "views[0]"},
		{strings.Replace(text, "name: gone", `name: "${file:/etc/passwd}"`, 1), "upstreams[1].name: has a reference"},
		{text + "x: ${env:GATEHOUSE_CANARY}\n" + strings.Repeat("# much\n", 160_000), "has more than 1048576 bytes"},
		{strings.Replace(text, "  - {name: kept", manyRules()+"  - {name: kept", 1), "2003 are more than 2000"},
	} {
		if status, answer, _ := ask(operatorToken, tt.config); status != http.StatusUnprocessableEntity ||
			!strings.Contains(answer, tt.want) || strings.Contains(answer, "the-canary") {
			t.Errorf("%d %.500s, want %s", status, answer, tt.want)
		}
	}
	for name, body := range map[string]string{"bad time": `{"config":"x","since":"soon"}`, "no object": `[]`} {
		if status, answer := o.ask(t, operatorToken, http.MethodPost, path, path, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
}

// TestLive: operators hear of calls as they are made.
func TestLive(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	c := startUnwatched(t, operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url))
	o := operatorsOf(t, c)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		o.url+"/api/v1/decisions/live?kind=call", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+viewerToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Status, resp.Header)
	}
	observed(t, c, &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "up__work",
		Params:  mcp.Raw(`{"name":"up__work"}`),
		Session: "alice:~1", Ephemeral: true, Revision: "new", Notify: func(mcp.Event) {}})
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			o.validate(t, "Decision", data)
			if !strings.Contains(data, `"id":"c1"`) {
				t.Errorf("got %s", data)
			}
			return
		}
	}
	t.Error("the stream has ended:", lines.Err())
}

// TestLiveEndsWithItsToken: whoever follows with a token that is withdrawn hears nothing more, and
// others go on.
func TestLiveEndsWithItsToken(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	text := operatorsConfig + fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, text)
	o := operatorsOf(t, c)
	follow := func(token string) *bufio.Scanner {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			o.url+"/api/v1/decisions/live?kind=call", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		if !lines.Scan() || lines.Text() != ": follows" {
			t.Fatal(resp.Status, lines.Text())
		}
		return lines
	}
	viewer, operator := follow(viewerToken), follow(operatorToken)
	c.reload(t, strings.Replace(text, viewerToken, viewerToken+"-other", 1))
	for viewer.Scan() {
	}
	if err := viewer.Err(); err != nil {
		t.Errorf("the viewer's stream did not end in good order: %v", err)
	}
	observed(t, c, &mcp.Call{ID: "c1", Method: mcp.MethodToolsCall, Name: "up__work",
		Params:  mcp.Raw(`{"name":"up__work"}`),
		Session: "alice:~1", Ephemeral: true, Revision: "new", Notify: func(mcp.Event) {}})
	for operator.Scan() {
		if strings.HasPrefix(operator.Text(), "data: ") {
			return
		}
	}
	t.Error("the operator's stream has ended:", operator.Err())
}

// TestNoOperators: without admin.api there is no API, and nothing is kept.
func TestNoOperators(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	head := fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, head+"admin: {listen: \"127.0.0.1:0\"}\n")
	if status, _ := ask(t, c.AdminAddr().String(), "/api/v1/decisions"); status != http.StatusNotFound ||
		c.recent != nil || c.journal.Enabled() {
		t.Error(status)
	}
	c.write(t, head+operatorsConfig)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, c.AdminAddr().String(), "/api/v1/decisions"); status != http.StatusNotFound ||
		c.ReloadStatus().Pending[0].Path != "admin" {
		t.Errorf("a reload begins to serve it: %d", status)
	}
}

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// particular is a server that has a tool for clients alone that can be asked.
func particular(t *testing.T) *site {
	s := newSite(t, false, one("admin", saying("x")))
	add := func(name, description string) {
		s.server.AddTool(&sdk.Tool{Name: name, Description: description,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`)}, saying(name))
	}
	add("read", "Reads. "+strings.Repeat("More of it. ", 250))
	add("write", "Writes.")
	add("survey", "Asks its user.")
	s.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, r)
			list, ok := result.(*sdk.ListToolsResult)
			if session, is := r.GetSession().(*sdk.ServerSession); ok && is &&
				session.InitializeParams().Capabilities.Elicitation == nil {
				list.Tools = slices.DeleteFunc(list.Tools, func(tool *sdk.Tool) bool { return tool.Name == "survey" })
			}
			return result, err
		}
	})
	return s
}

// TestListsOfCallers: operators are told the list that a client gets with the same claims, at the same
// view, that declares the same; and why the rest is not on it.
func TestListsOfCallers(t *testing.T) {
	t.Parallel()
	up := particular(t)
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	t.Cleanup(issuer.Close)
	c := startUnwatched(t, operatorsConfig+fmt.Sprintf(`public_url: http://127.0.0.1:1/mcp
auth: {mode: oauth, issuers: [{url: %q}]}
upstreams:
- {name: up, url: %q}
- {name: pinned, url: %q, pinning: {mode: block}}
- {name: gone, url: "http://127.0.0.1:1/mcp"}
pinning: {file: %q}
policy:
  rules:
  - {name: sales, who: {groups: [sales]}, allow: ["tools:*"], ask: ["tools:up/write"]}
  - {name: not admin, deny: ["tools:up/admin"], when: 'caller.user != "root"'}
views:
- {name: small, show: ["tools:up/read", "tools:up/admin"], drop_prefixes: true, who: {users: [ann, root]}}
- {name: brief, show: ["tools:up/*"], disclosure: {mode: progressive}}
`, issuer.URL, up.url, up.url, emptyLock(t)))
	o := operatorsOf(t, c)
	const path = "/api/v1/catalog"
	ask := func(q admin.ListQuestion) (a admin.ListAnswer) {
		t.Helper()
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if status, answer := o.ask(t, viewerToken, http.MethodPost, path, path, string(text)); status != http.StatusOK ||
			json.Unmarshal([]byte(answer), &a) != nil {
			t.Fatalf("%d %s", status, answer)
		}
		return a
	}
	const asks = `{"elicitation":{"form":{}}}`
	client := func(q admin.ListQuestion) (all []string) {
		t.Helper()
		caller := mcp.NewCaller(mcp.Caller{Issuer: issuer.URL, Subject: q.User, Groups: q.Groups, View: q.View})
		call := &mcp.Call{ID: "c", Method: mcp.MethodToolsList, Caller: caller, Caps: q.Capabilities, Session: q.User + ":~1",
			Ephemeral: true, Notify: func(mcp.Event) {}}
		for page, err := range mcp.Pages(t.Context(), c.current.calls, call, 10) {
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				all = append(all, item.Name+": "+item.Raw.At("description").Text())
			}
		}
		return all
	}
	sales := []string{"sales"}
	eventually(t, "the server was looked at as both kinds of clients", func() bool {
		with := len(client(admin.ListQuestion{User: "ann", Groups: sales, Capabilities: mcp.Raw(asks)}))
		return with == 3 && len(client(admin.ListQuestion{User: "ann", Groups: sales, Capabilities: mcp.Raw("{}")})) == 2
	})
	const noRule = "policy: No rule allows it: the default is deny."
	for _, tt := range []struct {
		user, view, caps string
		groups           []string
		shown            int
		hidden           map[string]string // by own name
	}{
		{"ann", "", "{}", sales, 2,
			map[string]string{"admin": `policy: Rule "not admin" denies it, whatever others say. at ` + c.file + ":",
				"survey": "client: "}},
		{"ann", "", asks, sales, 3, map[string]string{"admin": "policy: "}},
		{"root", "", asks, sales, 4, nil},
		{"bob", "", asks, nil, 0, map[string]string{"read": noRule, "write": noRule, "survey": noRule, "admin": "policy: "}},
		{"ann", "small", "{}", sales, 1, map[string]string{"write": `view: The view "small" does not show it`,
			"admin": "policy: ", "survey": "client: "}},
		{"ann", "brief", asks, sales, 4, map[string]string{"admin": "policy: "}},
	} {
		name := fmt.Sprintf("%s of %v at %q with %s", tt.user, tt.groups, tt.view, tt.caps)
		q := admin.ListQuestion{User: tt.user, Groups: tt.groups, View: tt.view, Capabilities: mcp.Raw(tt.caps), Limit: 2}
		var got []string
		var tokens admin.ListTokens
		var total *admin.ListTokens
		hidden, pinned := make(map[string]string), 0
		for {
			a := ask(q)
			total = a.Tokens
			if a.Shown != tt.shown || !strings.Contains(strings.Join(a.Notes, " "), "gone does not answer") {
				t.Errorf("%s: %d shown, notes %q", name, a.Shown, a.Notes)
			}
			for _, e := range a.Entries {
				switch {
				case e.Shown:
					got = append(got, e.Name+": "+e.Description)
					tokens.Listed, tokens.Full, tokens.Short = tokens.Listed+e.Tokens.Listed, tokens.Full+e.Tokens.Full,
						tokens.Short+e.Tokens.Short
					if e.Original == "read" && (e.Cuts == nil) != (tt.view == "brief") || e.Original == "write" && e.Call != "ask" {
						t.Errorf("%s: %+v", name, e)
					}
				case e.Upstream == "pinned":
					pinned++
					if e.By != "pin" {
						t.Errorf("%s: %+v", name, e)
					}
				default:
					hidden[e.Original] = e.By + ": " + e.Reason + " at " + e.RuleAt
				}
			}
			if q.Offset = a.Next; a.Next == 0 {
				break
			}
		}
		if want := client(q); !slices.Equal(got, want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, want)
		}
		if tokens != *total || tt.shown > 0 && tokens.Short > tokens.Full ||
			tt.view == "brief" && tokens.Listed != tokens.Short {
			t.Errorf("%s: tokens %+v, in all %+v", name, tokens, total)
		}
		for own, want := range tt.hidden {
			if !strings.HasPrefix(hidden[own], want) {
				t.Errorf("%s: %s is hidden by %q, want %q", name, own, hidden[own], want)
			}
		}
		if len(hidden) != len(tt.hidden) || pinned == 0 {
			t.Errorf("%s: hidden: %v, %d are not approved", name, hidden, pinned)
		}
	}
	if a := ask(admin.ListQuestion{User: "bob", Groups: sales, View: "small"}); a.Shown != 0 ||
		!strings.Contains(a.Notes[0], "403") || a.Entries[0].By != "view" {
		t.Errorf("a view for others: %+v", a)
	}
	if a := ask(admin.ListQuestion{User: "ann", Groups: sales, View: "brief", Name: "up/read"}); len(a.Entries) != 1 ||
		a.Entries[0].Name != "up__read" ||
		!strings.Contains(string(a.Entries[0].Full), `"required":["to"]`) ||
		len(a.Entries[0].Definition) >= len(a.Entries[0].Full) {
		t.Errorf("one tool: %+v", a.Entries)
	}
	for _, bad := range []string{`{"kind":"x"}`, `{"view":"none"}`, `{"issuer":"https://else.example"}`,
		`{"capabilities":[]}`, `{"claims":1}`, `{"limit":1001}`, `{"offset":-1}`, `[]`} {
		if status, answer := o.ask(t, viewerToken, http.MethodPost, path, path, bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
	// A token is nobody whom policy knows.
	const try = "/api/v1/try"
	if status, answer := o.ask(t, operatorToken, http.MethodPost, try, try,
		`{"name":"up__read"}`); status != http.StatusForbidden || !strings.Contains(answer, "GH-ADMIN-ROLE") {
		t.Errorf("a token tries: %d %s", status, answer)
	}
	api := newAPI(c.Gateway)
	as := func(user, tool string) (tried admin.Tried) {
		t.Helper()
		caller := mcp.NewCaller(mcp.Caller{Issuer: issuer.URL, Subject: user, Groups: sales})
		who := admin.Operator{Name: user, Roles: []string{admin.RoleOperator}, Caller: &caller}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/catalog/tool", nil)
		tried, err := admin.TryTool.Ask(api, r, who, admin.Trial{Name: tool, Arguments: mcp.Raw(`{"to":"x"}`)})
		text, marshal := json.Marshal(tried)
		if err != nil || marshal != nil {
			t.Fatal(err, marshal)
		}
		o.validate(t, "Tried", string(text))
		return tried
	}
	if got := as("ann", "up__admin"); got.Error == nil || got.Error.Code != mcp.CodeInvalidParams {
		t.Errorf("ann tries what policy denies: %+v", got)
	}
	if got := as("root", "up__admin"); got.Error != nil || !strings.Contains(string(got.Result), `"x"`) {
		t.Errorf("root tries it: %+v", got)
	}
	if got := as("ann", "up__write"); len(got.Asked) != 1 || got.Result != nil ||
		!strings.Contains(got.Note, "cannot answer") {
		t.Errorf("what policy asks about: %+v", got)
	}
}

// TestTry: a tool that an operator tries is called and recorded as that of any client.
func TestTry(t *testing.T) {
	t.Parallel()
	up := newSite(t, true, one("work", saying("done")))
	c := startUnwatched(t,
		operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\npolicy: {default: allow, rules: [{name: later, deny: [\"tools:up/work\"], when: has(args.later)}]}\n", up.url))
	o := operatorsOf(t, c)
	const path = "/api/v1/try"
	for token, want := range map[string]int{viewerToken: http.StatusForbidden, auditorToken: http.StatusForbidden,
		operatorToken: http.StatusOK} {
		status, answer := o.ask(t, token, http.MethodPost, path, path, `{"name":"up__work"}`)
		if status != want || want == http.StatusOK && !strings.Contains(answer, `"result":{`) {
			t.Errorf("%s: %d %s, want %d", token, status, answer, want)
		}
	}
	if _, answer := o.ask(t, operatorToken, http.MethodPost, path, path,
		`{"name":"up__work","arguments":{"later":1}}`); !strings.Contains(answer, "GH-ARGUMENTS-DENIED") {
		t.Errorf("what policy denies: %s", answer)
	}
	for _, bad := range []string{`{}`, `{"name":"up__work","arguments":{"a":1,"a":2}}`,
		`{"name":"up__work","arguments":[]}`, `{"name":"up__work","view":"none"}`, `{"name":"up__work","capabilities":1}`} {
		if status, answer := o.ask(t, operatorToken, http.MethodPost, path, path, bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, answer)
		}
	}
	const decisions = "/api/v1/decisions"
	var calls, acts admin.Page
	for query, to := range map[string]*admin.Page{"?kind=call&name=up__work": &calls, "?kind=admin&user=acts": &acts} {
		if _, answer := o.ask(t, viewerToken, http.MethodGet, decisions, decisions+query,
			""); json.Unmarshal([]byte(answer), to) != nil {
			t.Fatal(answer)
		}
	}
	if len(calls.Decisions) != 2 || len(acts.Decisions) != 2 {
		t.Fatalf("recorded: %+v and %+v", calls.Decisions, acts.Decisions)
	}
	for i, act := range acts.Decisions {
		if act.Event != "tried" || act.ID == "" || act.ID != calls.Decisions[i].ID {
			t.Errorf("recorded: %+v of %+v", act, calls.Decisions[i])
		}
	}
}

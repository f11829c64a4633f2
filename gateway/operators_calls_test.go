package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// lastCall is the last call of a tool, as somebody is shown it.
func (o *operators) lastCall(t *testing.T, token, name string) (call admin.Call, text string) {
	t.Helper()
	const decisions = "/api/v1/decisions"
	status, text := o.ask(t, token, http.MethodGet, decisions, decisions+"?kind=call&limit=1&name="+name, "")
	var page struct{ Decisions []struct{ ID string } }
	if status != http.StatusOK || json.Unmarshal([]byte(text), &page) != nil || len(page.Decisions) != 1 {
		t.Fatalf("%s: %d %s", name, status, text)
	}
	status, text = o.ask(t, token, http.MethodGet, "/api/v1/calls/{id}", "/api/v1/calls/"+page.Decisions[0].ID, "")
	if status != http.StatusOK || json.Unmarshal([]byte(text), &call) != nil {
		t.Fatalf("%s: %d %s", name, status, text)
	}
	return call, text
}

// said are the messages of an edge in one direction, as one text.
func said(call admin.Call, edge string, received bool) string {
	var all strings.Builder
	for _, m := range call.Messages {
		if m.Edge == edge && m.Received == received {
			fmt.Fprintf(&all, "%v\n%s\n", m.Headers, m.Text)
		}
	}
	return all.String()
}

// TestCallIsShown: an operator sees where the time of a call went and its messages at both edges, in
// the words of both revisions; the values in them are for auditors, if the configuration says so.
func TestCallIsShown(t *testing.T) {
	const canary, secret = "C4N4RY", "the-gateways-own-secret"
	revisions := []string{stateful, stateless}
	text := operatorsConfig + "    messages: full\nupstreams:\n"
	for _, revision := range revisions {
		server := mcptest.NewServer(wire.Lookup(revision))
		t.Cleanup(server.Close)
		server.Tools("work")
		server.Tool("work", func(c *mcptest.Call) {
			c.Progress(1)
			c.Text(canary)
		})
		text += fmt.Sprintf("- {name: s%s, url: %q, auth: {type: bearer, token: %s}}\n", revision[:4], server.URL, secret)
	}
	text += "hooks: [{name: looks, on: [arguments], what: [\"tools:*\"], redact: {patterns: [never-there]}}]\n"
	c := startUnwatched(t, text)
	o := operatorsOf(t, c)
	for _, revision := range revisions {
		client := mcptest.NewClient(c.URL(), wire.Lookup(revision))
		client.Header = http.Header{"Authorization": {"Bearer " + canary}, "Cookie": {canary}, "Mcp-Param-Who": {canary}}
		if err := client.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, server := range revisions {
			name := "s" + server[:4] + "__work"
			params := fmt.Sprintf(`{"name":%q,"arguments":{"who":%q},"_meta":{"progressToken":%q}}`, name, canary, canary)
			if _, _, err := client.Call(t.Context(), "tools/call", params); err != nil {
				t.Fatal(err)
			}
			t.Run(revision+" to "+server, func(t *testing.T) {
				call, text := o.lastCall(t, viewerToken, name)
				for what, secret := range map[string]string{"a value": canary, "a credential": secret,
					"a session": orNone(client.Session)} {
					if strings.Contains(text, secret) {
						t.Errorf("a viewer sees %s: %s", what, text)
					}
				}
				var steps []string
				for _, s := range call.Steps {
					steps = append(steps, s.Step)
					if s.Round != 1 || s.Start < 0 || s.Duration < 0 {
						t.Errorf("step %+v", s)
					}
				}
				for _, want := range []string{"identity", "front", "limits", "policy", "hook", "queue", "server", "session",
					"credential", "answer"} {
					if !slices.Contains(steps, want) {
						t.Errorf("no step %s: %v", want, steps)
					}
				}
				asked, sent, came, answered := said(call, "client", true), said(call, "server", false), said(call, "server", true),
					said(call, "client", false)
				for where, want := range map[string][]string{
					asked:    {`"method": "tools/call"`, `"name": "` + name + `"`, `"who": "<string, 6 bytes>"`},
					sent:     {`"method": "tools/call"`, `"name": "work"`, `{Mcp-Protocol-Version ` + server + `}`},
					came:     {`"method": "notifications/progress"`, `"text": "<string, 6 bytes>"`},
					answered: {`"method": "notifications/progress"`, `"text": "<string, 6 bytes>"`},
				} {
					for _, want := range want {
						if !strings.Contains(where, want) {
							t.Errorf("no %s in:\n%s", want, where)
						}
					}
				}
				if got := strings.Contains(answered, `"resultType": "complete"`); got != (revision == stateless) {
					t.Errorf("the client got:\n%s", answered)
				}
				if got := strings.Contains(sent, `{Mcp-Method tools/call}`); got != (server == stateless) {
					t.Errorf("the server got:\n%s", sent)
				}
				if call.Arguments || !strings.Contains(call.Curl, `"arguments":{}`) || !strings.Contains(call.Curl, "/mcp'") {
					t.Errorf("a viewer gets the command\n%s", call.Curl)
				}
				all, text := o.lastCall(t, auditorToken, name)
				for _, edge := range []string{said(all, "client", true), said(all, "server", false), said(all, "server", true),
					said(all, "client", false), all.Curl} {
					if !all.Values || !all.Arguments || !strings.Contains(edge, canary) {
						t.Errorf("an auditor does not see the values: %s", edge)
					}
				}
				if strings.Contains(text, secret) || strings.Contains(text, "Bearer "+canary) ||
					client.Session != "" && strings.Contains(text, client.Session) {
					t.Errorf("an auditor sees a credential: %s", text)
				}
			})
		}
	}
	if call, _ := o.lastCall(t, viewerToken, "s"+stateful[:4]+"__work"); len(call.Similar) != 1 {
		t.Errorf("%d similar calls", len(call.Similar))
	}

	for _, tt := range []struct {
		mode           string
		values, unkept bool
	}{{"shape", false, false}, {"off", false, true}} {
		c.reload(t, strings.Replace(text, "messages: full", "messages: "+tt.mode, 1))
		client := mcptest.NewClient(c.URL(), wire.Lookup(stateless))
		name := "s" + stateless[:4] + "__work"
		if _, _, err := client.Call(t.Context(), "tools/call",
			fmt.Sprintf(`{"name":%q,"arguments":{"who":%q}}`, name, canary)); err != nil {
			t.Fatal(err)
		}
		call, text := o.lastCall(t, auditorToken, name)
		if call.Values != tt.values || (len(call.Messages) == 0) != tt.unkept || len(call.Steps) == 0 ||
			strings.Contains(text, canary) {
			t.Errorf("messages %s: %s", tt.mode, text)
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "there is none"
	}
	return s
}

// TestQuestionIsShown: a question in mid-call and its answer are shown at both edges, in rounds.
func TestQuestionIsShown(t *testing.T) {
	server := mcptest.NewServer(wire.Lookup(stateful))
	t.Cleanup(server.Close)
	server.Tools("work")
	server.Tool("work", func(c *mcptest.Call) {
		_, _ = c.Ask("elicitation/create", `{"message":"who?","requestedSchema":{"type":"object","properties":{}}}`)
		c.Text("done")
	})
	c := startUnwatched(t, operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", server.URL))
	o := operatorsOf(t, c)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "7"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"who": "C4N4RY"}}, nil
		},
	}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: c.URL(), DisableStandaloneSSE: true},
		&sdk.ClientSessionOptions{ProtocolVersion: stateful})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "up__work"}); err != nil {
		t.Fatal(err)
	}
	call, text := o.lastCall(t, viewerToken, "up__work")
	if strings.Contains(text, "C4N4RY") || strings.Contains(text, "who?") {
		t.Errorf("a viewer sees a question or an answer: %s", text)
	}
	const question, answer = `"method": "elicitation/create"`, `"action": "accept"`
	for edge, want := range map[string]string{
		said(call, "server", true): question, said(call, "client", false): question,
		said(call, "client", true): answer, said(call, "server", false): answer,
	} {
		if !strings.Contains(edge, want) {
			t.Errorf("no %s in:\n%s", want, edge)
		}
	}
	rounds := make(map[string]int)
	for _, s := range call.Steps {
		rounds[s.Step] = max(rounds[s.Step], s.Round)
	}
	if rounds["policy"] != 2 || rounds["user"] != 1 || rounds["server"] != 2 {
		t.Errorf("steps %+v", call.Steps)
	}

	// A stateless client answers in a call of its own.
	client := mcptest.NewClient(c.URL(), wire.Lookup(stateless))
	client.Caps = `{"elicitation":{"form":{}}}`
	asked, _, err := client.Call(t.Context(), "tools/call", `{"name":"up__work","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		InputRequests map[string]json.RawMessage
		RequestState  string
	}
	if err := json.Unmarshal(asked.Result, &result); err != nil || len(result.InputRequests) != 1 {
		t.Fatalf("%v: %s", err, asked.Result)
	}
	first, _ := o.lastCall(t, auditorToken, "up__work")
	for key := range result.InputRequests {
		params := fmt.Sprintf(`{"name":"up__work","arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{}}}}`, result.RequestState, key)
		if _, _, err := client.Call(t.Context(), "tools/call", params); err != nil {
			t.Fatal(err)
		}
	}
	second, text := o.lastCall(t, auditorToken, "up__work")
	if first.ID == second.ID || !strings.Contains(said(first, "server", true), question) ||
		!strings.Contains(said(first, "client", false), `"resultType": "input_required"`) {
		t.Errorf("the question: %+v", first.Messages)
	}
	if !strings.Contains(said(second, "client", true), answer) ||
		!strings.Contains(said(second, "server", false), answer) || strings.Contains(text, result.RequestState) {
		t.Errorf("the answer: %s", text)
	}
}

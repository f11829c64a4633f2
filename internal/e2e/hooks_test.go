package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

// leak is a secret that the server gives away.
const leak = "AKIAIOSFODNN7EXAMPLE"

// newLeaky starts a server whose tools, prompt and resource give a secret away.
func newLeaky(t *testing.T, revision string) (url string) {
	t.Helper()
	server := newPeer(revision, func(string) {})
	sdk.AddTool(server, &sdk.Tool{Name: "leak"}, func(ctx context.Context, req *sdk.CallToolRequest,
		in countInput) (*sdk.CallToolResult, map[string]string, error) {
		if token := req.Params.GetProgressToken(); token != nil {
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1,
				Message: "found " + leak}); err != nil {
				return nil, nil, err
			}
		}
		text := strings.Repeat("a line\n", in.To) + "key " + leak
		return says(text), map[string]string{"key": leak, leak: "key"}, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "ask"}, asking("elicitation", &sdk.ElicitParams{
		Message:         "Use " + leak + "?",
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string"}}}`),
	}))
	server.AddPrompt(&sdk.Prompt{Name: "leak"}, func(context.Context,
		*sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: leak}}}},
			nil
	})
	server.AddResource(&sdk.Resource{Name: "leak", URI: "test://leak"}, fixed("is "+leak))
	url, stop := serve(server, revision == stateless)
	t.Cleanup(stop)
	return url
}

// wantHook checks that a call failed because of a hook, why, and whether it ran.
func wantHook(t *testing.T, err error, code, reason, executed string) {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	var data map[string]any
	_ = json.Unmarshal(e.Data, &data)
	if got, _ := data["reason"].(string); got != reason || data["executed"] != executed || data["error_code"] != code {
		t.Errorf("the error has %s", e.Data)
	}
}

// guardrail starts the service of an operator. It doubles what is counted, refuses to say what
// links are, and never answers about anything else.
func guardrail(t *testing.T) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Target  struct{ Name string }
			Content struct{ To int }
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		switch asked.Target.Name {
		case "count":
			fmt.Fprintf(w, `{"action":"change","content":{"to":%d}}`, 2*asked.Content.To)
		case "links":
			fmt.Fprint(w, `{"action":"refuse","reason":"no links"}`)
		default:
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestHooks: from both eras to both eras, a hook sees everything that is said.
func TestHooks(t *testing.T) {
	for _, pair := range [][2]string{{statefulClient, stateless}, {stateless, statefulServer}} {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) {
			t.Parallel()
			keys := []string{"aws_key"}
			asks := func(name, on, onFailure string, what ...string) hooks.Hook {
				return hooks.Hook{Name: name, On: []string{on}, What: what,
					HTTP: &hooks.HTTP{URL: guardrail(t), OnFailure: onFailure}}
			}
			hangs := func(h hooks.Hook) hooks.Hook {
				h.HTTP.Timeout = 50 * time.Millisecond
				return h
			}
			var reason atomic.Value
			reason.Store("it is time")
			c := newClient(pair[0])
			c.answer = func(*sdk.ElicitParams) *sdk.ElicitResult {
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reason": reason.Load()}}
			}
			url := start(t, gateway.Config{
				Upstreams: []upstream.Config{{Name: "up", URL: newLeaky(t, pair[1]),
					Results: largeresults.Settings{Inline: inline}}},
				Hooks: hooks.Config{
					{Name: "in", On: []string{hooks.Arguments}, Redact: &hooks.Redact{Patterns: []string{"apple"}, With: "pear"}},
					{Name: "no", What: []string{"tools:up/echo", "tools:up/ask"},
						Refuse: &hooks.Refuse{Patterns: []string{"forbidden"}, Reason: "it is forbidden"}},
					{Name: "out", On: []string{hooks.Results}, Redact: &hooks.Redact{Secrets: keys, With: "<key>"}},
					asks("doubles", hooks.Arguments, "", "tools:up/count"),
					asks("no-links", hooks.Results, "", "tools:up/links"),
					hangs(asks("closed", hooks.Arguments, "", "prompts:up/greet")),
					hangs(asks("open", hooks.Results, hooks.Passed, "tools:up/fail")),
				},
			})
			c.open(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: ownClient(t)})

			if got := c.text(t, "up__echo", map[string]any{"text": "an apple"}); got != "an pear" {
				t.Errorf("the server got %q", got)
			}
			_, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__echo",
				Arguments: map[string]any{"text": "forbidden"}})
			wantHook(t, err, "GH-HOOK-REFUSED", "it is forbidden", "no")

			if got := c.text(t, "up__count", map[string]any{"to": 2}); got != "counted to 4" {
				t.Errorf("the service has changed the arguments: %q", got)
			}
			_, err = c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__links"})
			wantHook(t, err, "GH-HOOK-REFUSED", "no links", "yes")
			_, err = c.GetPrompt(deadline(t), &sdk.GetPromptParams{Name: "up__greet", Arguments: map[string]string{"name": "a"}})
			wantHook(t, err, "GH-HOOK-DOWN", "", "no")
			if got := c.text(t, "up__fail", nil); got != "the tool broke" {
				t.Errorf("a result that nobody judged: %q", got)
			}

			params := &sdk.CallToolParams{Name: "up__leak", Arguments: map[string]any{"to": 1}}
			params.SetProgressToken("p")
			result, err := c.CallTool(deadline(t), params)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(result); strings.Contains(string(got), leak) ||
				strings.Count(string(got), `\u003ckey\u003e`) != 3 {
				t.Errorf("the result is %s", got)
			}
			if got := <-c.progress; got.Message != "found <key>" {
				t.Errorf("progress is %q", got.Message)
			}
			if got := c.text(t, "up__ask", nil); got != "accept because it is time" {
				t.Errorf("the answer to the question was %q", got)
			}
			if got := <-c.asked; got != "up asks: Use <key>?" {
				t.Errorf("the question is %q", got)
			}
			reason.Store("forbidden")
			_, err = c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__ask"})
			wantHook(t, err, "GH-HOOK-REFUSED", "it is forbidden", "unknown")
			prompt, err := c.GetPrompt(deadline(t), &sdk.GetPromptParams{Name: "up__leak"})
			if err != nil || prompt.Messages[0].Content.(*sdk.TextContent).Text != "<key>" {
				t.Errorf("the prompt is %v, %v", prompt, err)
			}
			read, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: "up+test://leak"})
			if err != nil || read.Contents[0].Text != "is <key>" {
				t.Errorf("the resource is %v, %v", read, err)
			}

			result, err = c.CallTool(deadline(t), &sdk.CallToolParams{Name: "up__leak", Arguments: map[string]any{"to": inline}})
			if err != nil {
				t.Fatal(err)
			}
			link, ok := result.Content[len(result.Content)-1].(*sdk.ResourceLink)
			if !ok {
				t.Fatalf("a large result ends with a %T", result.Content[len(result.Content)-1])
			}
			if read, err = c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: link.URI}); err != nil ||
				!strings.HasSuffix(read.Contents[0].Text, "\nkey <key>") {
				t.Errorf("what was kept of it is not redacted, or not read: %v", err)
			}
		})
	}
}

// TestHookTrail: the record and the trace of a call say what hooks did. Nothing that operators see
// has what these have seen.
func TestHookTrail(t *testing.T) {
	t.Parallel()
	at := mcptest.NewCollector()
	t.Cleanup(at.Close)
	records := writtenTo(filepath.Join(t.TempDir(), "audit.jsonl"))
	var log mcptest.Log
	served, err := gateway.New(gateway.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Version: "test",
		Config: gateway.Config{
			Listen:    "127.0.0.1:0",
			Upstreams: []upstream.Config{{Name: "up", URL: newLeaky(t, stateless)}},
			Audit:     audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile, Path: string(records)}}},
			Tracing:   tracing.Config{Collector: tracing.Collector{Endpoint: at.URL}},
			Hooks: hooks.Config{
				{Name: "keys", Redact: &hooks.Redact{Secrets: []string{"aws_key"}}},
				{Name: "dlp", On: []string{hooks.Results}, HTTP: &hooks.HTTP{URL: guardrail(t), Timeout: 50 * time.Millisecond}},
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	served.Start()
	stop := func() { _ = served.Stop(deadline(t)) }
	t.Cleanup(stop)
	if err := served.WaitReady(deadline(t)); err != nil {
		t.Fatal(err)
	}
	c := connect(t, served.URL(), statefulClient)
	params := &sdk.CallToolParams{Name: "up__echo", Arguments: map[string]any{"text": leak}}
	params.SetMeta(map[string]any{"traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"})
	_, err = c.CallTool(deadline(t), params)
	wantHook(t, err, "GH-HOOK-DOWN", "", "yes")
	stop()

	for _, want := range []string{`"executed":"yes"`,
		`"hooks":[{"name":"keys","on":"arguments","action":"change","duration_ms":`,
		`{"name":"keys","on":"results","action":"pass","duration_ms":`,
		`{"name":"dlp","on":"results","action":"fail_closed","duration_ms":`} {
		if !strings.Contains(records.String(), want) {
			t.Errorf("the records lack %s:\n%s", want, records)
		}
	}
	spans := make(map[string]int)
	for _, s := range at.Spans("0123456789abcdef0123456789abcdef") {
		spans[s.Name]++
	}
	if spans["hook keys"] != 2 || spans["hook dlp"] != 1 {
		t.Errorf("the spans are %v", spans)
	}
	if log.Count(`msg="a hook fails" error_code=GH-HOOK-DOWN hook=dlp action=fail_closed`) != 1 {
		t.Errorf("the log is\n%s", log.String())
	}
	for where, what := range map[string]string{"records": records.String(), "spans": at.String(),
		"the log": log.String()} {
		wantNowhere(t, where, what, leak)
	}
}

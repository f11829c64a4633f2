package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	inner "github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// sdkServer is a server of the official SDK.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Ref.Name + "!"}}}, nil
		},
	})
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest,
		a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "steps"}, func(ctx context.Context, r *mcp.CallToolRequest,
		_ in) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1),
			})
			if err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(_ context.Context,
		r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
			Content: &mcp.TextContent{Text: "hi " + r.Params.Arguments["who"]}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "a", URI: "file:///a"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "content"}}}, nil
		})
	return s
}

// playSDK serves the SDK's server over stdio.
func playSDK() {
	if err := sdkServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func TestOfficialSDK(t *testing.T) {
	overHTTP := func(t *testing.T, options *mcp.StreamableHTTPOptions) upstream.Config {
		server := sdkServer()
		h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
		t.Cleanup(h.Close)
		return upstream.Config{Name: "sdk", URL: h.URL}
	}
	overSSE := func(t *testing.T, transport string) upstream.Config {
		server := sdkServer()
		h := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
		t.Cleanup(h.Close)
		return upstream.Config{Name: "sdk", URL: h.URL, Transport: transport}
	}
	for _, tt := range []struct {
		name     string
		stateful bool
		cfg      func(*testing.T) upstream.Config
	}{
		{"HTTP+SSE", true, func(t *testing.T) upstream.Config { return overSSE(t, "sse") }},
		{"HTTP+SSE, found out", true, func(t *testing.T) upstream.Config { return overSSE(t, "auto") }},
		{"stateful over HTTP", true, func(t *testing.T) upstream.Config { return overHTTP(t, nil) }},
		{"stateful over HTTP, JSON", true, func(t *testing.T) upstream.Config {
			return overHTTP(t, &mcp.StreamableHTTPOptions{JSONResponse: true})
		}},
		{"stateless over HTTP", false, func(t *testing.T) upstream.Config {
			return overHTTP(t, &mcp.StreamableHTTPOptions{Stateless: true})
		}},
		{"pinned to 2025-06-18 over HTTP", true, func(t *testing.T) upstream.Config {
			cfg := overHTTP(t, nil)
			cfg.Revision = "2025-06-18"
			return cfg
		}},
		{"stdio", false, func(t *testing.T) upstream.Config { return fake.Command(t, "sdk") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := fake.Start(t, tt.cfg(t))
			checkSDK(t, u)
			if !strings.Contains(tt.name, "JSON") { // otherwise it cannot report progress
				checkSDKProgress(t, u)
			}
			if got := u.Status(); got.Stateful != tt.stateful || got.ServerName != "sdk" {
				t.Errorf("status %+v, want stateful %v", got, tt.stateful)
			}
		})
	}
}

func call(method, name, params string) *inner.Call {
	return &inner.Call{Method: method, Name: name, Params: inner.Raw(params), Session: "user:s",
		Notify: func(inner.Event) {}}
}

func checkSDK(t *testing.T, u *fake.Upstream) {
	t.Helper()
	fake.MustDo(t, u, &inner.Call{Method: inner.MethodDiscover, Notify: func(inner.Event) {}})
	for method, want := range map[string]string{
		inner.MethodToolsList: "echo", inner.MethodPromptsList: "greet", inner.MethodResourcesList: "file:///a",
	} {
		if items := fake.MustDo(t, u, fake.List(method)).List.Items; len(items) == 0 || items[0].Name != want {
			t.Errorf("%s: %v", method, items)
		}
	}
	for want, c := range map[string]*inner.Call{
		`"text":"hello"`:   call(inner.MethodToolsCall, "echo", `{"name":"x__echo","arguments":{"text":"hello"}}`),
		`"text":"hi you"`:  call(inner.MethodPromptsGet, "greet", `{"name":"x__greet","arguments":{"who":"you"}}`),
		`"text":"content"`: call(inner.MethodResourcesRead, "file:///a", `{"uri":"x+file:///a"}`),
		`"values":["greet!"`: call(inner.MethodComplete, "greet",
			`{"ref":{"type":"ref/prompt","name":"x__greet"},"argument":{"name":"a","value":"b"}}`),
	} {
		if reply := fake.MustDo(t, u, c); !strings.Contains(string(reply.Result), want) {
			t.Errorf("%s: %s, want %s", c.Method, reply.Result, want)
		}
	}
}

func checkSDKProgress(t *testing.T, u *fake.Upstream) {
	t.Helper()
	steps := make(chan string, 10)
	c := call(inner.MethodToolsCall, "steps", `{"name":"steps","arguments":{"text":""},"_meta":{"progressToken":"tok"}}`)
	c.Notify = func(e inner.Event) { steps <- e.Method }
	fake.MustDo(t, u, c)
	for range 3 {
		select {
		case method := <-steps:
			if method != inner.NoteProgress {
				t.Errorf("event %s", method)
			}
		case <-time.After(fake.Patience):
			t.Fatal("progress is missing")
		}
	}
}

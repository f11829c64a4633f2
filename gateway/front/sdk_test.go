package front

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestGoSDKClient runs the official client against the front, in both dialects and over both
// transports.
func TestGoSDKClient(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		sse           bool
	}{
		{v2506, v2506, false}, {v2511, v2511, false}, {v2607, v2607, false},
		{v2024 + " over HTTP+SSE", v2024, true}, {v2511 + " over HTTP+SSE", v2511, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			version := tt.version
			b := newBench(t, Config{})
			progress := make(chan float64, 16)
			changed := make(chan struct{}, 16)
			client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context,
					r *sdk.ProgressNotificationClientRequest) {
					progress <- r.Params.Progress
				},
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"a": 1.0}}, nil
				},
			})
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			var via sdk.Transport = &sdk.StreamableClientTransport{Endpoint: b.url,
				HTTPClient: &http.Client{Transport: transport}}
			if tt.sse {
				via = &sdk.SSEClientTransport{Endpoint: b.url + ssePath, HTTPClient: &http.Client{Transport: transport}}
			}
			cs, err := client.Connect(t.Context(), via, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer cs.Close()
			if got := cs.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("negotiated %s", got)
			}
			t.Run("list", func(t *testing.T) {
				names := ""
				for tool, err := range cs.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					names += tool.Name + " "
				}
				if names != "echo slow " {
					t.Errorf("tools %q", names)
				}
				if got := b.script.last(mcp.MethodToolsList); got.Ephemeral != (version == v2607) {
					t.Errorf("the client speaks another dialect: session %q", got.Session)
				}
			})
			t.Run("call with progress", func(t *testing.T) {
				params := &sdk.CallToolParams{Name: "progress"}
				params.SetProgressToken("p")
				if _, err := cs.CallTool(t.Context(), params); err != nil {
					t.Fatal(err)
				}
				if got := receive(t, "progress", progress); got != 1 {
					t.Errorf("progress %v", got)
				}
			})
			t.Run("errors leave the connection alive", func(t *testing.T) {
				for _, name := range []string{"nothing", "down", "broken", "panic", "old-code"} {
					if _, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name}); err == nil {
						t.Errorf("%s: no error", name)
					}
				}
				r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"x": 1}})
				if err != nil || r.StructuredContent == nil && version >= v2506 {
					t.Errorf("after them: %v", err)
				}
			})
			t.Run("elicitation", func(t *testing.T) {
				if version < v2506 { // it has none
					return
				}
				r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask"})
				if err != nil {
					t.Fatal(err)
				}
				got, _ := r.StructuredContent.(map[string]any)
				answer, _ := got["answer"].(map[string]any)
				if answer["action"] != "accept" || got["state"] != "st-1" {
					t.Errorf("got %v", got)
				}
			})
			t.Run("read", func(t *testing.T) {
				r, err := cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "doc://1"})
				if err != nil || r.Contents[0].Text != "one" {
					t.Errorf("got %v %v", r, err)
				}
				if _, err := cs.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "doc://none"}); err == nil ||
					!strings.Contains(err.Error(), "not found") {
					t.Errorf("a missing one: %v", err)
				}
			})
			t.Run("cancel", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-b.script.started
					cancel()
				}()
				if _, err := cs.CallTool(ctx, &sdk.CallToolParams{Name: "slow"}); err == nil {
					t.Error("no error")
				}
				if err := receive(t, "the call's end", b.script.ended); err == nil {
					t.Error("the call was not cancelled")
				}
			})
			t.Run("list_changed", func(t *testing.T) {
				b.script.waitListening(t, 1)
				b.script.emit(mcp.NoteToolsListChanged, `{}`)
				receive(t, "the notification", changed)
			})
		})
	}
}

// TestGoSDKNoticesALostSession checks the one answer whose id must be null.
func TestGoSDKNoticesALostSession(t *testing.T) {
	b := newBench(t, Config{})
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cs, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: b.url,
		HTTPClient: &http.Client{Transport: transport}},
		&sdk.ClientSessionOptions{ProtocolVersion: v2511})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	h := b.store.Homes().Known(home.Key{User: mcp.NewCaller(mcp.Caller{}).User(), ID: cs.ID()})
	if err := h.End(t.Context(), home.Ended); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "session not found") {
		t.Errorf("got %v", err)
	}
}

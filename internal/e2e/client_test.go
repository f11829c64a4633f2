package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

//lint:file-ignore SA1019 what the newest revision deprecates still has to pass through

// client is a go-sdk client with all capabilities for questions.
type client struct {
	*sdk.ClientSession
	name     string // what it calls itself
	revision string
	progress chan *sdk.ProgressNotificationParams
	logs     chan *sdk.LoggingMessageParams
	updated  chan string
	changed  chan struct{} // of tools
	asked    chan string
	// answer is the user's answer to a question; nil accepts everything. Set it before
	// there can be a question.
	answer func(*sdk.ElicitParams) *sdk.ElicitResult
}

// connect returns a client of a revision for one test.
func connect(t *testing.T, url, revision string) *client {
	t.Helper()
	c := newClient(revision)
	c.open(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: ownClient(t)})
	return c
}

// connectSSE is connect over HTTP+SSE, which is served next to the endpoint.
func connectSSE(t *testing.T, url, revision string) *client {
	t.Helper()
	c := newClient(revision)
	c.open(t, &sdk.SSEClientTransport{Endpoint: ssePath(url), HTTPClient: ownClient(t)})
	return c
}

func ssePath(endpoint string) string { return strings.TrimSuffix(endpoint, "/mcp") + "/sse" }

// ownClient returns an HTTP client whose connections end with the test.
func ownClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: watchSkills(t, transport)}
}

func newClient(revision string) *client {
	return &client{
		name:     "e2e",
		revision: revision,
		progress: make(chan *sdk.ProgressNotificationParams, 100),
		logs:     make(chan *sdk.LoggingMessageParams, 100),
		updated:  make(chan string, 100),
		changed:  make(chan struct{}, 100),
		asked:    make(chan string, 100),
	}
}

// open connects the client until the test ends.
func (c *client) open(t *testing.T, via sdk.Transport) {
	t.Helper()
	impl := sdk.NewClient(&sdk.Implementation{Name: c.name, Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{ListChanged: true}},
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			c.asked <- r.Params.Message
			if c.answer != nil {
				return c.answer(r.Params), nil
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"reason": "it is time", "confirm": true}}, nil
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "parrot", Role: "assistant", Content: &sdk.TextContent{Text: "hello"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.progress <- r.Params
		},
		LoggingMessageHandler: func(_ context.Context, r *sdk.LoggingMessageRequest) { c.logs <- r.Params },
		ResourceUpdatedHandler: func(_ context.Context,
			r *sdk.ResourceUpdatedNotificationRequest) {
			c.updated <- r.Params.URI
		},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { c.changed <- struct{}{} },
	})
	impl.AddRoots(&sdk.Root{URI: "file:///work", Name: "work"})
	session, err := impl.Connect(deadline(t), via, &sdk.ClientSessionOptions{ProtocolVersion: c.revision})
	if err != nil {
		t.Fatalf("client of %s: %v", c.revision, err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != c.revision {
		t.Fatalf("negotiated %s, want %s", got, c.revision)
	}
	c.ClientSession = session
}

// text calls a tool and returns the text of its result.
func (c *client) text(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return textOf(t, result)
}

func textOf(t *testing.T, result *sdk.CallToolResult) string {
	t.Helper()
	if len(result.Content) == 0 {
		t.Fatalf("a result without content: %+v", result)
	}
	text, ok := result.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("the content is a %T", result.Content[0])
	}
	return text.Text
}

// raw returns a scripted client of a revision with an open session.
func raw(t *testing.T, url, revision string) *mcptest.Client {
	t.Helper()
	return rawWith(t, url, revision, "{}")
}

// rawWith is raw for a client that declares capabilities.
func rawWith(t *testing.T, url, revision, caps string) *mcptest.Client {
	t.Helper()
	c := unopened(t, url, revision)
	c.Caps = caps
	if err := c.Open(deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// unopened returns a scripted client that has not sent anything yet.
func unopened(t *testing.T, url, revision string) *mcptest.Client {
	t.Helper()
	c := mcptest.NewClient(url, wire.Lookup(revision))
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.HTTP = &http.Client{Transport: watchSkills(t, transport)}
	return c
}

// scripted starts a scripted server of a revision.
func scripted(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	s := mcptest.NewServer(wire.Lookup(revision))
	t.Cleanup(s.Close)
	t.Cleanup(func() { checkAsked(t, s) })
	return s
}

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// patient is a go-sdk server that waits for answers for as long as it takes, whatever
// becomes of the connection of a call. Its tools are ask, which asks the user and goes on
// until it is cancelled, and echo.
type patient struct {
	*httptest.Server
	answered  chan string // why a question has no answer, "" for one that has
	cancelled chan struct{}
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{answered: make(chan string, 10), cancelled: make(chan struct{}, 10)}
	server := sdk.NewServer(&sdk.Implementation{Name: "patient", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{serverRev}})
	type none struct{}
	sdk.AddTool(server, &sdk.Tool{Name: "ask"}, func(ctx context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Really?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			p.answered <- err.Error()
		} else {
			p.answered <- ""
		}
		<-ctx.Done()
		p.cancelled <- struct{}{}
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "echo"}}}, nil, nil
	})
	p.Server = httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		for session := range server.Sessions() {
			session.Close()
		}
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// asks makes calls at a replica, one in a session and one without, each up to its question.
func (p *patient) asks(t *testing.T, c, stateless *mcptest.Client) {
	t.Helper()
	must(t, "a call", c, "tools/call", `{"name":"patient__echo","arguments":{}}`)
	x, err := c.Send(deadline(t), "tools/call", `{"name":"patient__ask","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	if m, err := x.Until("elicitation/create"); err != nil {
		t.Fatalf("a question: %s %v", m.Text, err)
	}
	var kind string
	if m := must(t, "a question", stateless, "tools/call", `{"name":"patient__ask","arguments":{}}`); !m.Value("resultType", &kind) || kind != "input_required" {
		t.Fatalf("a question: %s", m.Text)
	}
}

// wantLetGo checks that one more question waits no longer, since its call was cancelled or
// since the client has gone, and that its call was cancelled.
func (p *patient) wantLetGo(t *testing.T, which string) {
	t.Helper()
	select {
	case why := <-p.answered:
		if why != context.Canceled.Error() && !strings.Contains(why, "the client has gone") {
			t.Errorf("the question of %s is answered with %q", which, why)
		}
	case <-deadline(t).Done():
		t.Errorf("the question of %s waits for ever", which)
	}
	select {
	case <-p.cancelled:
	case <-deadline(t).Done():
		t.Errorf("the call of %s goes on for ever", which)
	}
	if n := len(p.answered) + len(p.cancelled); n > 0 {
		t.Errorf("%d more after that of %s", n, which)
	}
}

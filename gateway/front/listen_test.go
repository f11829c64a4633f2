package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A panic ends its subscription and the stream: nothing may be written to a response whose
// handler has returned.
func TestPanicEndsASubscription(t *testing.T) {
	b := newBench(t, Config{KeepAlive: time.Millisecond})
	b.front.endpoint.Handler = mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Raw(`{"notifications":{}}`)})
		panic("on purpose")
	})
	header := modern(mcp.MethodListen, "")
	header["Accept"] = []string{"text/event-stream"}
	resp, text := b.send("POST", `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{},`+
		meta+`}}`, header)
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(text, "}\n\n") ||
		!strings.Contains(text, `data: {"jsonrpc":"2.0","id":7,"error"`) {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

func TestTasksThatNobodyDeclared(t *testing.T) {
	b := newBench(t, Config{})
	const filter = `{"notifications":{"toolsListChanged":true,"taskIds":["t"]}}`
	m, _, err := b.client(v2607).Call(t.Context(), mcp.MethodListen, filter)
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeMissingCapability ||
		string(m.Error.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"error_code":"GH-MISSING-CAPABILITY"}` {
		t.Errorf("got %s %v", m.Text, err)
	}
	x, err := b.client(v2607, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`).Send(t.Context(),
		mcp.MethodListen, filter)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, err = x.Next()
	if err != nil || m.Method != mcp.NoteAcknowledged || !strings.Contains(m.Text, `"taskIds":["t"]`) {
		t.Errorf("got %s %v", m.Text, err)
	}
}

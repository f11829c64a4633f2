package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A panic ends the subscription that it was in, with its stream: nothing may be
// written to a response whose handler has returned.
func TestPanicEndsASubscription(t *testing.T) {
	b := newBench(t, Config{KeepAlive: time.Millisecond})
	b.front.handler = mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) {
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Raw(`{"notifications":{}}`)})
		panic("on purpose")
	})
	header := modern(mcp.MethodListen, "")
	header["Accept"] = []string{"text/event-stream"}
	resp, text := b.send("POST", `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{},`+meta+`}}`, header)
	if resp.StatusCode != http.StatusOK || !strings.HasSuffix(text, "}\n\n") || !strings.Contains(text, `data: {"jsonrpc":"2.0","id":7,"error"`) {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

package front

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// A slow unsubscribe becomes a stream, which begins and sends comments while its handler
// changes the session (for the race detector).
func TestUnsubscribeBecomesAStream(t *testing.T) {
	b := newBench(t, Config{StreamAfter: 20 * time.Millisecond, KeepAlive: 5 * time.Millisecond})
	c := b.client(v2511)
	for _, uri := range []string{"doc://1", "doc://2"} {
		if r, _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"`+uri+`"}`); err != nil || r.Error != nil {
			t.Fatalf("subscribe: %s %v", r.Text, err)
		}
	}
	confirm := make(chan struct{})
	b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
		<-confirm
		return b.script.Handle(ctx, call)
	})
	stream := rawStream(t, b, c, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"doc://1"}}`)
	stream.line(t, ": keep-alive")
	close(confirm)
	if got := stream.line(t, "data: {"); !strings.Contains(got, `"result":{}`) {
		t.Errorf("got %s", got)
	}
}

// A subscription that is confirmed after the front began to close leaves no listener behind.
func TestCloseWhileASubscriptionIsMade(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	begun, confirm := make(chan struct{}), make(chan struct{})
	b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
		close(begun)
		<-confirm
		return b.script.Handle(ctx, call)
	})
	subscribed := make(chan mcptest.Message, 1)
	go func() {
		m, _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"doc://1"}`)
		if err != nil {
			t.Error(err)
		}
		subscribed <- m
	}()
	receive(t, "the request", begun)
	closed := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), tooLong)
		defer cancel()
		closed <- b.front.Close(ctx)
	}()
	receive(t, "the end of new requests", b.front.endpoint.Running.Draining.Done())
	close(confirm)
	if m := receive(t, "the answer", subscribed); m.Error != nil || string(m.Result) != "{}" {
		t.Errorf("the subscription is answered %s", m.Text)
	}
	if err := receive(t, "Close", closed); err != nil {
		t.Error(err)
	}
	b.script.waitListening(t, 0)
}

// A subscription that does not fit into the session is withdrawn at its server.
func TestSubscriptionThatDoesNotFit(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	subscribe := func(uri string) mcptest.Message {
		m, _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"`+uri+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := subscribe("doc://first"); m.Error != nil {
		t.Fatalf("the first: %s", m.Text)
	}
	if m := subscribe("doc://" + strings.Repeat("x", session.MaxRecordBytes)); m.Error == nil {
		t.Fatal("there is room for the second")
	}
	b.script.waitListening(t, 1)
	if params := string(b.script.last(mcp.MethodListen).Params); !strings.Contains(params, "doc://first") ||
		strings.Contains(params, "xxx") {
		t.Errorf("it is still listened to: %.200s", params)
	}
}

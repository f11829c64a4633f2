package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// way is a way to abandon a call: what the server does, which message the client waits for,
// and how the client leaves, unless it just closes the stream.
type way struct {
	name, revision string
	what, until    string
	goodbye        func(l *leaver, ctx context.Context, id string, x *mcptest.Exchange) error
}

const (
	progressed = "notifications/progress"
	answered   = "" // by a response
)

var leakWays = []way{
	{"no answer", statefulClient, "ask", "sampling/createMessage", nil},
	{"no answer, and the client waits on", statefulClient, "ask", answered, nil},
	{"no answer, but cancelled", statefulClient, "ask", "sampling/createMessage", (*leaver).cancel},
	{"no answer, but the session ended", statefulClient, "ask", "sampling/createMessage", (*leaver).end},
	{"cancelled", statefulClient, "hang", progressed, (*leaver).cancel},
	{"its stream dropped", statefulClient, "end", progressed, nil},
	{"its session ended", statefulClient, "hang", progressed, (*leaver).end},
	{"the server died", statefulClient, "die", answered, nil},
	{"a GET stream dropped", statefulClient, "listen", answered, nil},
	{"its stream resumed and dropped", statefulClient, "end", progressed, (*leaver).resume},
	{"subscribed, and the session ended", statefulClient, "subscribe", answered, (*leaver).end},
	{"no answer", stateless, "ask", answered, nil},
	{"hung up", stateless, "hang", progressed, nil},
	{"the server died", stateless, "die", answered, nil},
	{"its stream dropped", stateless, "end", progressed, nil},
	{"a subscription dropped", stateless, "listen", "notifications/subscriptions/acknowledged", nil},
}

// leaver is a client that abandons calls. Its session sees many such calls before it ends.
type leaver struct {
	ground  *leakGround
	clients map[string]*mcptest.Client // by revision
	calls   int
}

func (l *leaver) client(ctx context.Context, revision string) (*mcptest.Client, error) {
	if c := l.clients[revision]; c != nil {
		return c, nil
	}
	c := mcptest.NewClient(l.ground.g.URL(), wire.Lookup(revision))
	c.HTTP, c.Caps = &http.Client{Transport: l.ground.clients}, `{"sampling":{}}`
	l.clients[revision] = c
	return c, c.Open(ctx)
}

func (l *leaver) cancel(ctx context.Context, id string, _ *mcptest.Exchange) error {
	_, err := l.clients[statefulClient].Notify(ctx, "notifications/cancelled", `{"requestId":`+id+`}`)
	return err
}

// resume resumes the stream where it was left, and leaves it again.
func (l *leaver) resume(ctx context.Context, _ string, x *mcptest.Exchange) error {
	ids := x.EventIDs()
	x.Close()
	x, err := l.clients[statefulClient].Get(ctx, ids[len(ids)-1])
	if err == nil {
		x.Close()
	}
	return err
}

func (l *leaver) end(ctx context.Context, _ string, _ *mcptest.Exchange) error {
	return l.endSession(ctx)
}

func (l *leaver) endSession(ctx context.Context) error {
	c := l.clients[statefulClient]
	if c == nil {
		return nil
	}
	delete(l.clients, statefulClient)
	_, err := c.Delete(ctx)
	return err
}

func (l *leaver) leave(ctx context.Context, w way, server int) error {
	c, err := l.client(ctx, w.revision)
	if err != nil {
		return err
	}
	l.calls++
	id := strconv.Itoa(l.calls)
	name := l.ground.names[server]
	var x *mcptest.Exchange
	switch {
	case w.what == "listen" && w.revision == stateless:
		x, err = c.SendID(ctx, id, "subscriptions/listen",
			fmt.Sprintf(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["%s+test://x"]}}`, name))
	case w.what == "listen":
		if x, err = c.Get(ctx, ""); err == nil {
			x.Close()
		}
		return err
	case w.what == "subscribe":
		x, err = c.SendID(ctx, id, "resources/subscribe", fmt.Sprintf(`{"uri":"%s+test://%s"}`, name, id))
	default:
		x, err = c.SendID(ctx, id, "tools/call",
			fmt.Sprintf(`{"name":"%s__do","arguments":{"what":%q},"_meta":{"progressToken":1}}`, name, w.what))
	}
	if err != nil {
		return err
	}
	defer x.Close()
	if w.until == answered {
		_, err = x.Response()
	} else {
		_, err = x.Until(w.until)
	}
	if err == nil && w.goodbye != nil {
		err = w.goodbye(l, ctx, id, x)
	}
	return err
}

package upstreamtest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// patience bounds every wait of the suite. It is long, because the machine may be busy.
// brief is the time limit of calls in the one test that waits for a limit to pass; it is
// enough to start a process even then.
const (
	patience = time.Minute
	brief    = 10 * time.Second
)

// Run runs the suite. newServer makes a server of the revision for each test, and reach
// returns how to reach it. The tests run in parallel.
func Run(t *testing.T, revision *wire.Revision, newServer func(*wire.Revision) *mcptest.Server,
	reach func(*testing.T, *mcptest.Server) upstream.Config) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"discover", testDiscover},
		{"list", testList},
		{"call", testCall},
		{"param header", testParamHeader},
		{"unknown tool", testUnknownTool},
		{"progress", testProgress},
		{"cancel", testCancel},
		{"timeout", testTimeout},
		{"ask", testAsk},
		{"big result", testBig},
		{"garbage", testGarbage},
		{"nearly an answer", testNearlyAnAnswer},
		{"death in mid-call", testDeath},
		{"many at once", testMany},
		{"close", testClose},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &bench{
				server: newServer(revision), stateful: revision.Stateful,
				hangs: make(chan struct{}, 1), ended: make(chan struct{}, 1),
			}
			t.Cleanup(b.server.Close)
			b.script()
			cfg := reach(t, b.server)
			cfg.Name = "scripted"
			cfg.Limits.ResultBytes = 64 << 10
			cfg.Timeout.Call = patience
			if tt.name == "timeout" {
				mcptest.Long(t)
				cfg.Timeout.Call = brief
			}
			transport := upstream.NewTransport(nil, cfg)
			t.Cleanup(transport.CloseIdleConnections)
			u, err := upstream.New(cfg, upstream.Deps{
				Log: slog.New(slog.DiscardHandler), HTTP: transport,
				Version: "1",
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if err := u.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			b.Upstream = u
			tt.test(t, b)
		})
	}
}

// bench is the Upstream under test, with its server.
type bench struct {
	*upstream.Upstream
	server   *mcptest.Server
	stateful bool
	hangs    chan struct{} // receives a value when the server has got a call of hang
	ended    chan struct{} // and when it has ended
}

// tool makes a tool call by a client that supports elicitation.
func tool(name, arguments string) *mcp.Call {
	return &mcp.Call{
		ID: "test", Method: mcp.MethodToolsCall, Name: name, Session: "user:session",
		Params: mcp.Raw(`{"name":"public__` + name + `","arguments":` + arguments + `}`),
		Caps:   mcp.Raw(`{"elicitation":{"form":{}}}`),
		Notify: func(mcp.Event) {},
	}
}

func (b *bench) do(t *testing.T, c *mcp.Call) (*mcp.Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Handle(ctx, c)
}

// text makes a call and returns the text of its result.
func (b *bench) text(t *testing.T, c *mcp.Call) string {
	t.Helper()
	reply, err := b.do(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return said(t, reply)
}

func said(t *testing.T, reply *mcp.Reply) string {
	t.Helper()
	text := ""
	reply.Result.At("content").Elements(func(block mcp.Raw) bool {
		text = block.At("text").Text()
		return false
	})
	return text
}

// sees waits for something that happens at the server.
func (b *bench) sees(t *testing.T, what string, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(patience):
		t.Fatalf("the server never saw that %s", what)
	}
}

// seesEnd waits until the server has ended the call of hang. A stateful server gets a message: the
// end of a connection does not cancel a call. It returns the reason.
func (b *bench) seesEnd(t *testing.T) (reason string) {
	t.Helper()
	b.sees(t, "hang was given up", b.ended)
	if !b.stateful {
		return ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cancelled := func(r mcptest.Received) bool { return r.Method == mcp.NoteCancelled }
	got, err := b.server.Await(ctx, mcp.NoteCancelled, cancelled)
	if err != nil {
		t.Error(err)
	}
	got.Param("reason", &reason)
	return reason
}

func wantCode(t *testing.T, err error, code int, executed mcp.Executed) {
	t.Helper()
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		t.Fatalf("error %v, want an mcp.Error", err)
	}
	if e.Code != code {
		t.Errorf("error %v, want code %d", e, code)
	}
	got, _ := e.Data.Member("executed")
	if got.Text() != string(executed) {
		t.Errorf("executed %q, want %q", got.Text(), executed)
	}
}

func testDiscover(t *testing.T, b *bench) {
	for range 2 {
		reply, err := b.do(t, &mcp.Call{Method: mcp.MethodDiscover, Notify: func(mcp.Event) {}})
		if err != nil {
			t.Fatal(err)
		}
		caps, _ := reply.Result.Member("capabilities")
		if _, ok := caps.Member("tools"); !ok {
			t.Errorf("no tools in %s", caps)
		}
		if info := reply.Result.At("serverInfo"); info.At("name").Text() != "scripted" {
			t.Errorf("serverInfo %s", info)
		}
		if text, _ := reply.Result.Member("instructions"); text.Text() != "be kind" {
			t.Errorf("instructions %s", text)
		}
	}
	status := b.Status()
	if status.State != upstream.StateReady || status.Stateful != b.stateful || status.ServerName != "scripted" {
		t.Errorf("status %+v", status)
	}
}

func testList(t *testing.T, b *bench) {
	reply, err := b.do(t, &mcp.Call{Method: mcp.MethodToolsList, Notify: func(mcp.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	if reply.List == nil || len(reply.List.Items) < 8 || reply.List.Items[0].Name != "echo" {
		t.Fatalf("list %+v", reply.List)
	}
}

func testCall(t *testing.T, b *bench) {
	for _, text := range []string{"hello", "", "zwölf \u2028 <&> \x7f"} {
		c := tool("echo", string(mcp.Object("text", mcp.String(text))))
		if got := b.text(t, c); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func testParamHeader(t *testing.T, b *bench) {
	// The gateway has not listed tools before: it learns what the server misses from the
	// refusal.
	for _, region := range []string{"eu", "us", ""} {
		if got := b.text(t, tool("region", `{"region":"`+region+`"}`)); got != region {
			t.Errorf("got %q, want %q", got, region)
		}
	}
}

func testUnknownTool(t *testing.T, b *bench) {
	_, err := b.do(t, tool("nothing", "{}"))
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeInvalidParams ||
		e.Message != "Unknown tool: nothing" {
		t.Errorf("error %v, want the server's", err)
	}
	if b.Status().State != upstream.StateReady {
		t.Errorf("state %s after an error of the server's own", b.Status().State)
	}
}

func testProgress(t *testing.T, b *bench) {
	events := make(chan string, 10)
	c := tool("steps", "{}")
	c.Params = mcp.Raw(`{"name":"steps","_meta":{"progressToken":"client's","vendor/key":[1]}}`)
	c.Notify = func(e mcp.Event) {
		events <- e.Method + " " + string(e.Params.At("progress"))
	}
	if got := b.text(t, c); got != "done" {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"1", "2", "3"} {
		select {
		case got := <-events:
			if got != mcp.NoteProgress+" "+want {
				t.Errorf("event %q, want step %s", got, want)
			}
		default:
			t.Fatalf("step %s was not reported before the result", want)
		}
	}
}

func testCancel(t *testing.T, b *bench) {
	const why = "the user changed their mind"
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.Handle(ctx, tool("hang", "{}"))
		failed <- err
	}()
	b.sees(t, "hang was called", b.hangs)
	cancel(mcp.CancelReason(why))
	select {
	case err := <-failed:
		if err != mcp.CancelReason(why) {
			t.Errorf("error %v, want the context's", err)
		}
	case <-time.After(patience):
		t.Fatal("the call did not return")
	}
	if reason := b.seesEnd(t); b.stateful && reason != why {
		t.Errorf("the server was told %q", reason)
	}
}

func testTimeout(t *testing.T, b *bench) {
	_, err := b.do(t, tool("hang", "{}"))
	wantCode(t, err, mcp.CodeUpstreamTimeout, mcp.ExecutedUnknown)
	b.seesEnd(t)
}

func testAsk(t *testing.T, b *bench) {
	c := tool("ask", "{}")
	reply, err := b.do(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Ask == nil || len(reply.Ask.Requests) != 1 || len(reply.Ask.Round) == 0 {
		t.Fatalf("reply %+v, want a question", reply)
	}
	q := reply.Ask.Requests[0]
	if message, _ := q.Params.Member("message"); q.Method != mcp.MethodElicit ||
		message.Text() != "scripted asks: Which colour?" {
		t.Errorf("question %s %s", q.Method, q.Params)
	}
	if reply.Ask.Here != b.stateful {
		t.Errorf("here %v", reply.Ask.Here)
	}
	again := c.Clone()
	again.Round = reply.Ask.Round
	again.Answers = map[string]mcp.Raw{q.Key: mcp.Raw(`{"action":"accept","content":{"colour":"blue"}}`)}
	if got := b.text(t, again); got != "accept blue" {
		t.Errorf("got %q", got)
	}
	if n := b.Status().Parked; n != 0 {
		t.Errorf("%d calls are parked", n)
	}
}

func testBig(t *testing.T, b *bench) {
	if got := b.text(t, tool("big", `{"bytes":50000}`)); len(got) != 50000 {
		t.Errorf("got %d bytes", len(got))
	}
	_, err := b.do(t, tool("big", `{"bytes":100000}`))
	wantCode(t, err, mcp.CodeUpstreamAnswerTooLarge, mcp.ExecutedUnknown)
	if got := b.text(t, tool("echo", `{"text":"still there"}`)); got != "still there" {
		t.Errorf("got %q", got)
	}
}

func testGarbage(t *testing.T, b *bench) {
	reply, err := b.do(t, tool("garbage", "{}"))
	if err != nil {
		wantCode(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	} else if got := said(t, reply); got != "after garbage" {
		t.Errorf("got %q", got)
	}
	if got := b.text(t, tool("echo", `{"text":"still there"}`)); got != "still there" {
		t.Errorf("got %q", got)
	}
}

// testNearlyAnAnswer: an answer that is no JSON ends its call at once, and says why. An id is
// recognised by its value.
func testNearlyAnAnswer(t *testing.T, b *bench) {
	_, err := b.do(t, tool("spoilt", "{}"))
	wantCode(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if !strings.Contains(err.Error(), "at byte") {
		t.Errorf("the error does not say what was wrong: %v", err)
	}
	if got := b.text(t, tool("quoted", "{}")); got != "ok" {
		t.Errorf("got %q", got)
	}
}

func testDeath(t *testing.T, b *bench) {
	_, err := b.do(t, tool("die", "{}"))
	wantCode(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedUnknown)
	if got := b.text(t, tool("echo", `{"text":"back"}`)); got != "back" {
		t.Errorf("got %q", got)
	}
}

func testMany(t *testing.T, b *bench) {
	const calls = 50
	wrong := make(chan string, calls)
	for i := range calls {
		go func() {
			text := strings.Repeat("x", i)
			c := tool("echo", `{"text":"`+text+`"}`)
			c.Session = "user:" + string(rune('a'+i%3))
			reply, err := b.Handle(t.Context(), c)
			switch {
			case err != nil:
				wrong <- err.Error()
			case said(t, reply) != text:
				wrong <- "another call's answer"
			default:
				wrong <- ""
			}
		}()
	}
	for range calls {
		if what := <-wrong; what != "" {
			t.Error(what)
		}
	}
}

func testClose(t *testing.T, b *bench) {
	failed := make(chan error, 1)
	go func() {
		_, err := b.Handle(context.Background(), tool("hang", "{}"))
		failed <- err
	}()
	b.sees(t, "hang was called", b.hangs)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Close(now); err != nil {
		t.Error(err)
	}
	wantCode(t, <-failed, mcp.CodeDraining, mcp.ExecutedUnknown)
	_, err := b.do(t, tool("echo", "{}"))
	wantCode(t, err, mcp.CodeDraining, mcp.ExecutedNo)
}

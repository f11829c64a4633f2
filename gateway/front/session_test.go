package front

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// start makes a request in the background and returns its exchange. The tool "slow" tells the
// script when it has begun.
func start(t *testing.T, c *mcptest.Client, id, params string) (chan *mcptest.Exchange, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	done := make(chan *mcptest.Exchange, 1)
	go func() {
		x, err := c.SendID(ctx, id, "tools/call", params)
		if err != nil {
			x = nil
		}
		done <- x
	}()
	return done, cancel
}

func receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(tooLong):
		t.Fatalf("%s did not come", what)
	}
	panic("unreachable")
}

func TestSessionID(t *testing.T) {
	b := newBench(t, Config{})
	one, two := b.client(v2511).Session, b.client(v2511).Session
	if !regexp.MustCompile(`^[\x21-\x7e]{26,128}$`).MatchString(one) || one == two {
		t.Errorf("session ids %q and %q", one, two)
	}
}

func TestTooManySessions(t *testing.T) {
	b := newBench(t, Config{})
	for range 5 {
		b.client(v2511)
	}
	resp, text := b.send("POST",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, nil)
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `42901`) ||
		!strings.Contains(text, `"id":1`) || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	wantCount(t, "sessions too many", b.front.endpoint.Metrics.Bounds[refuse.BoundSessions], 1)
	resp, _ = b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		http.Header{"Test-User": {"other"}})
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another user: %d", resp.StatusCode)
	}
}

func TestStoreUnavailable(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	b.store.Close()
	resp, text := b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		http.Header{wire.HeaderSession: {c.Session}})
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `50303`) ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	before := len(b.script.made())
	resp, text = b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		nil)
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `50303`) {
		t.Errorf("initialize: %d %s", resp.StatusCode, text)
	}
	if calls := b.script.made(); len(calls) != before {
		t.Errorf("a session that could not be opened made a call: %s", calls[before].Method)
	}
}

func TestDeleteEndsWhatRuns(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	done, _ := start(t, c, "1", `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	if n := b.front.endpoint.Running.Calls(); n != 1 {
		t.Errorf("%d calls run, want 1", n)
	}
	stream, err := c.Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	b.script.waitListening(t, 1)
	if status, err := c.Delete(t.Context()); status != http.StatusNoContent || err != nil {
		t.Fatalf("DELETE: %d %v", status, err)
	}
	if err := receive(t, "the call's end", b.script.ended); err == nil {
		t.Error("the call was not cancelled")
	}
	if x := receive(t, "the answer", done); x.Status != http.StatusNotFound {
		t.Errorf("the call that ran: %d", x.Status)
	} else if text := x.Text(); !strings.Contains(text, `"id":null`) || !strings.Contains(text, `"executed":"unknown"`) {
		t.Errorf("the call that ran: %s", text)
	}
	stream.Text() // it ends
	b.script.waitListening(t, 0)
}

func TestDisconnectIsNoCancellation(t *testing.T) {
	b := newBench(t, Config{StreamAfter: time.Millisecond})
	c := b.client(v2511)
	x := rawStream(t, b, c,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`)
	receive(t, "the call", b.script.started)
	id := x.id(t) // of the priming event
	x.close()
	b.script.release <- struct{}{}
	if err := receive(t, "the call's end", b.script.ended); err != nil {
		t.Errorf("the call ended with %v", err)
	}
	t.Run("resume", func(t *testing.T) {
		x, err := c.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		m, err := x.Response()
		if err != nil || string(m.ID) != "1" || string(m.Result) != `{"content":[]}` {
			t.Fatalf("got %s %v", m.Text, err)
		}
		if len(x.Before) != 1 || x.Before[0].Method != mcp.NoteProgress {
			t.Errorf("before it: %v", x.Before)
		}
		if rest := x.Text(); rest != "" {
			t.Errorf("after it: %q", rest)
		}
	})
	t.Run("of another session", func(t *testing.T) {
		other := b.client(v2511)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		x, err := other.Get(ctx, id)
		if err != nil || x.Status != http.StatusOK {
			t.Fatal(err)
		}
		b.script.waitListening(t, 1)
		b.script.emit(mcp.NoteToolsListChanged, `{}`)
		if m, err := x.Next(); err != nil || m.Method != mcp.NoteToolsListChanged {
			t.Errorf("got %s %v: want a stream of its own", m.Text, err)
		}
		x.Close()
	})
}

func TestResumeFollowsACallThatRuns(t *testing.T) {
	b := newBench(t, Config{StreamAfter: time.Millisecond})
	c := b.client(v2511)
	x := rawStream(t, b, c,
		`{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`)
	id := x.id(t)
	receive(t, "the call", b.script.started)
	x.close()
	resumed, err := c.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	b.script.release <- struct{}{}
	m, err := resumed.Response()
	if err != nil || string(m.ID) != `"r"` || len(resumed.Before) != 1 {
		t.Errorf("got %s %v after %v", m.Text, err, resumed.Before)
	}
	if ids := resumed.EventIDs(); len(ids) != 3 || ids[0] != id || !slices.IsSorted(ids) {
		t.Errorf("event ids %q", ids)
	}
}

func TestCancelled(t *testing.T) {
	b := newBench(t, Config{})
	c, other := b.client(v2511), b.client(v2511)
	done, _ := start(t, c, `"7"`, `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	for _, n := range []struct {
		from   *mcptest.Client
		params string
	}{
		{c, `{"requestId":7}`},       // another type
		{c, `{"requestId":"8"}`},     // unknown
		{c, `{}`},                    // none
		{other, `{"requestId":"7"}`}, // another session
	} {
		if status, err := n.from.Notify(t.Context(), "notifications/cancelled", n.params); status != http.StatusAccepted ||
			err != nil {
			t.Errorf("%s: %d %v", n.params, status, err)
		}
	}
	select {
	case err := <-b.script.ended:
		t.Fatalf("the call ended: %v", err)
	default:
	}
	if status, err := c.Notify(t.Context(), "notifications/cancelled",
		`{"requestId":"7"}`); status != http.StatusAccepted || err != nil {
		t.Errorf("%d %v", status, err)
	}
	if err := receive(t, "the call's end", b.script.ended); err == nil {
		t.Error("the call was not cancelled")
	}
	if x := receive(t, "the answer", done); !x.Stream || x.Text() != "" {
		t.Errorf("there is an answer: %d", x.Status)
	}
}

// TestSameIDTwice: each gets its own answer, the later one first.
func TestSameIDTwice(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	began := make(chan string, 2)
	release := map[string]chan struct{}{"one": make(chan struct{}), "two": make(chan struct{})}
	b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
		began <- call.Name
		select {
		case <-release[call.Name]:
			return result(`{"said":"` + call.Name + `"}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	done := map[string]chan *mcptest.Exchange{}
	for _, name := range []string{"one", "two"} {
		done[name], _ = start(t, c, "1", `{"name":"`+name+`"}`)
		if got := receive(t, name, began); got != name {
			t.Fatalf("%s came, not %s", got, name)
		}
	}
	for _, name := range []string{"two", "one"} {
		close(release[name])
		m, err := receive(t, "the answer of "+name, done[name]).Response()
		if want := `{"said":"` + name + `"}`; err != nil || string(m.ID) != "1" || string(m.Result) != want {
			t.Errorf("got %s %v, want %s", m.Text, err, want)
		}
	}
}

// TestPingIsAnsweredHere: the gateway answers ping, and the upstreams hear nothing of
// it.
func TestPingIsAnsweredHere(t *testing.T) {
	b := newBench(t, Config{})
	for _, revision := range []string{v2024, v2503, v2506, v2511} {
		m, before, err := b.client(revision).Call(t.Context(), "ping", "{}")
		if err != nil || string(m.Result) != "{}" || len(before) != 0 {
			t.Errorf("%s: %s %v", revision, m.Text, err)
		}
	}
	if got := b.script.last("ping"); got.Method != "" {
		t.Errorf("forwarded: %+v", got)
	}
}

func TestStatelessDisconnectCancels(t *testing.T) {
	b := newBench(t, Config{})
	_, cancel := start(t, b.client(v2607), "1", `{"name":"slow"}`)
	receive(t, "the call", b.script.started)
	cancel()
	if err := receive(t, "the call's end", b.script.ended); err == nil {
		t.Error("the call was not cancelled")
	}
}

func TestIndependentStreams(t *testing.T) {
	b := newBench(t, Config{StreamAfter: time.Millisecond})
	for _, revision := range []string{v2511, v2607} {
		t.Run(revision, func(t *testing.T) {
			c := b.client(revision)
			one, _ := start(t, c, "1", `{"name":"slow"}`)
			receive(t, "the first", b.script.started)
			x, err := c.SendID(t.Context(), "2", "tools/call", `{"name":"progress","_meta":{"progressToken":"b"}}`)
			if err != nil {
				t.Fatal(err)
			}
			if m, err := x.Response(); err != nil || string(m.ID) != "2" || len(x.Before) != 5 {
				t.Errorf("the second: %s %v", m.Text, err)
			}
			if m, err := x.Next(); err != io.EOF {
				t.Errorf("after the response came %s %v", m.Text, err)
			}
			b.script.release <- struct{}{}
			first := receive(t, "the first answer", one)
			if m, err := first.Response(); err != nil || string(m.ID) != "1" || len(first.Before) != 0 {
				t.Errorf("the first: %s %v", m.Text, err)
			}
			if m, err := first.Next(); err != io.EOF {
				t.Errorf("after the response came %s %v", m.Text, err)
			}
		})
	}
}

func TestNothingAfterTheResult(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2607)
	x, err := c.Send(t.Context(), "tools/call", `{"name":"late","_meta":{"progressToken":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || x.Stream || m.Error != nil {
		t.Errorf("got %s %v", m.Text, err)
	}
	b.script.release <- struct{}{}
	receive(t, "the late progress", b.script.ended)
}

func TestNoProgressWithoutAToken(t *testing.T) {
	b := newBench(t, Config{})
	for _, meta := range []string{``, `,"_meta":{"progressToken":null}`, `,"_meta":{"progressToken":{}}`} {
		x, err := b.client(v2607).Send(t.Context(), "tools/call", `{"name":"progress"`+meta+`}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Response(); err != nil || x.Stream {
			t.Errorf("%q: a stream %t, %v", meta, x.Stream, err)
		}
	}
}

func TestPanicOnAStream(t *testing.T) {
	b := newBench(t, Config{})
	x, err := b.client(v2607).Send(t.Context(), "tools/call", `{"name":"panic-late","_meta":{"progressToken":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || m.Error == nil || m.Error.Code != mcp.CodeInternal {
		t.Errorf("got %s %v", m.Text, err)
	}
}

func TestSessionLevelReachesTheCall(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"roots":{"listChanged":true}}`)
	if _, _, err := c.Call(t.Context(), "logging/setLevel", `{"level":"error"}`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil {
		t.Fatal(err)
	}
	got := b.script.last("tools/call")
	if got.LogLevel != "error" || string(got.Caps) != `{"roots":{"listChanged":true}}` || got.Ephemeral ||
		!strings.HasSuffix(got.Session, ":"+c.Session) {
		t.Errorf("the call: %+v", got)
	}
	if len(got.ID) < 10 {
		t.Errorf("its id %q", got.ID)
	}
}

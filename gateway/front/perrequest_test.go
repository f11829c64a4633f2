package front

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestWithoutASessionID(t *testing.T) {
	b := newBench(t, Config{})
	b.client(v2511) // there is a session, but nobody names it
	for _, w := range []wantAnswer{
		{name: "a request", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400,
			want: []string{`-32600`, `"id":1`}},
		{name: "a request that states its version", header: http.Header{wire.HeaderVersion: {v2511}},
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400, want: []string{`-32600`, `"id":1`}},
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 400,
			want: []string{`-32600`}},
		{name: "an answer", body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 400, want: []string{`-32600`, `"id":null`}},
		{name: "GET", method: "GET", header: http.Header{"Accept": {"text/event-stream"}}, status: 400},
		{name: "DELETE", method: "DELETE", status: 400},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

// TestEachRequestHasItsOwnCaller: a session outlives the credentials that it began
// with. What counts is the caller of each request.
func TestEachRequestHasItsOwnCaller(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"elicitation":{}}`)
	for _, group := range []string{"one", "two"} {
		c.Header = http.Header{"Test-Group": {group}}
		if _, _, err := c.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil {
			t.Fatal(err)
		}
		if got := b.script.last("tools/call").Caller.Groups; len(got) != 1 || got[0] != group {
			t.Errorf("the call's caller is in %q, want %q", got, group)
		}
	}
	c.Header = nil
	x, err := c.Send(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	q, err := x.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	session := http.Header{wire.HeaderSession: {c.Session}, "Test-User": {"eve"}}
	for _, w := range []wantAnswer{
		{name: "a request", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`, status: 404},
		{name: "an answer", body: fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, q.ID), status: 404},
		{name: "a cancellation", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
			status: 404},
		{name: "GET", method: "GET", status: 404},
		{name: "DELETE", method: "DELETE", status: 404},
	} {
		w.header = session
		t.Run("another user, "+w.name, func(t *testing.T) { w.run(t, b) })
	}
	if err := c.Answer(t.Context(), q.ID, `{"action":"decline"}`); err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || !strings.Contains(m.Text, "decline") {
		t.Errorf("the first user's call: %s %v", m.Text, err)
	}
}

// TestQuestionsStayWithTheirCall: a GET stream is open while each kind of question is
// asked.
func TestQuestionsStayWithTheirCall(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"elicitation":{},"sampling":{},"roots":{}}`)
	stream := rawStream(t, b, c, "")
	b.script.waitListening(t, 1)
	for tool, method := range map[string]string{"ask": mcp.MethodElicit, "ask-sampling": mcp.MethodCreateMessage,
		"ask-roots": mcp.MethodRootsList} {
		x, err := c.Send(t.Context(), "tools/call", `{"name":"`+tool+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		q, err := x.Until(method)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		if err := c.Answer(t.Context(), q.ID, `{}`); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Response(); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	if got := stream.line(t, "data: {"); !strings.Contains(got, mcp.NoteToolsListChanged) {
		t.Errorf("the GET stream has %s", got)
	}
}

// TestAStreamLastsUntilItsResponse is about the revisions whose clients do not come
// back for the rest of a stream.
func TestAStreamLastsUntilItsResponse(t *testing.T) {
	for _, revision := range []string{v2503, v2506} {
		t.Run(revision, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, s, store := bubbleFront(t, time.Minute)
				record, err := store.Create(t.Context(), session.Record{User: mcp.Caller{}.User(), Revision: revision})
				if err != nil {
					t.Fatal(err)
				}
				w, cancel, done := serve(f, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`,
					http.Header{wire.HeaderSession: {record.ID}})
				defer cancel()
				<-s.started
				time.Sleep(time.Hour)
				synctest.Wait()
				select {
				case <-done:
					t.Fatalf("the stream ended before its response: %s", w)
				default:
				}
				s.release <- struct{}{}
				<-done
				<-s.ended
				if got := w.String(); !strings.HasSuffix(got, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`+"\n\n") ||
					strings.Contains(got, "retry:") {
					t.Errorf("the stream is %q", got)
				}
			})
		})
	}
}

// TestEachRetryReachesTheHandler makes one retry twice.
func TestEachRetryReachesTheHandler(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2607, `{"elicitation":{}}`)
	m, _, err := c.Call(t.Context(), "tools/call", `{"name":"ask"}`)
	var state string
	if err != nil || !m.Value("requestState", &state) {
		t.Fatalf("%s %v", m.Text, err)
	}
	for _, answer := range []string{"accept", "decline"} {
		m, _, err := c.Call(t.Context(), "tools/call",
			fmt.Sprintf(`{"name":"ask","requestState":%q,"inputResponses":{"q.1":{"action":%q}}}`, state, answer))
		got := b.script.last("tools/call")
		if err != nil || got.Round.Top().Value != "st-1" || !strings.Contains(string(got.Answers["q.1"]), answer) ||
			!strings.Contains(m.Text, answer) {
			t.Errorf("%s: the call has %v in %s, the answer is %s, %v", answer, got.Answers, got.Round, m.Text, err)
		}
	}
}

func TestTheLevelIsGivenWithEveryLaterCall(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2506)
	for _, level := range []string{"", "error", "debug"} {
		if level != "" {
			if m, _, err := c.Call(t.Context(), "logging/setLevel", `{"level":"`+level+`"}`); err != nil || m.Error != nil {
				t.Fatalf("%s %v", m.Text, err)
			}
		}
		for _, method := range []string{"tools/call", "resources/read", "tools/call"} {
			if _, _, err := c.Call(t.Context(), method, `{"name":"empty","uri":"doc://1"}`); err != nil {
				t.Fatal(err)
			}
			if got := b.script.last(method).LogLevel; got != level {
				t.Errorf("%s has the level %q, want %q", method, got, level)
			}
		}
	}
}

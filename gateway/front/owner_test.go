package front

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestSessionsOfOthers tries every use of a session as somebody else. The answers are those
// for a session that never existed, byte for byte, and the owner notices nothing.
func TestSessionsOfOthers(t *testing.T) {
	b := newBench(t, Config{StreamAfter: time.Millisecond})
	ann := b.client(v2511, `{"elicitation":{}}`)
	asked, err := ann.Send(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	question, err := asked.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	slow := rawStream(t, b, ann, `{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"slow"}}`)
	event := slow.id(t)
	receive(t, "the call", b.script.started)
	get, err := ann.Get(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer get.Close()
	b.script.waitListening(t, 1)

	stream := http.Header{"Accept": {"text/event-stream"}}
	requests := []struct {
		name, method string
		header       http.Header
		body         string
	}{
		{"a request", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"ping", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		{"a method that does not exist", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"x/y"}`},
		{"a request that is wrong", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}`},
		{"a batch", "POST", nil, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`},
		{"initialized", "POST", nil, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{"a cancellation", "POST", nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`},
		{"an answer", "POST", nil, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, question.ID)},
		{"GET", "GET", stream, ""},
		{"GET that resumes", "GET", with(stream, wire.HeaderLastEventID, event), ""},
		{"DELETE", "DELETE", nil, ""},
	}
	others := []struct {
		name   string
		header http.Header
	}{
		{"another user", http.Header{"Test-User": {"eve"}}},
		{"another client of the user", http.Header{"Test-Client": {"other"}}},
	}
	answer := func(method, body, session string, headers ...http.Header) string {
		all := http.Header{wire.HeaderSession: {session}}
		for _, h := range headers {
			for name, values := range h {
				all[name] = values
			}
		}
		resp, text := b.send(method, body, all)
		resp.Header.Del("Date")
		return fmt.Sprint(resp.Status, resp.Header, text)
	}
	for _, other := range others {
		for _, r := range requests {
			t.Run(other.name+", "+r.name, func(t *testing.T) {
				got := answer(r.method, r.body, ann.Session, r.header, other.header)
				never := answer(r.method, r.body, "NEVERWASANYSESSIONOFTHISID", r.header, other.header)
				if got != never || !strings.HasPrefix(got, "404 ") {
					t.Errorf("got   %s\nnever %s", got, never)
				}
			})
		}
	}

	t.Run("and its owner goes on", func(t *testing.T) {
		if err := ann.Answer(t.Context(), question.ID, `{"action":"decline"}`); err != nil {
			t.Fatal(err)
		}
		if m, err := asked.Response(); err != nil || !strings.Contains(m.Text, "decline") {
			t.Errorf("the question: %s %v", m.Text, err)
		}
		b.script.release <- struct{}{}
		slow.line(t, `data: {"jsonrpc":"2.0","id":77,"result"`)
		if err := receive(t, "the call's end", b.script.ended); err != nil {
			t.Errorf("the call ended with %v", err)
		}
		b.script.emit(mcp.NoteToolsListChanged, `{}`)
		if m, err := get.Next(); err != nil || m.Method != mcp.NoteToolsListChanged {
			t.Errorf("the stream: %s %v", m.Text, err)
		}
		for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
			if status, err := ann.Delete(t.Context()); status != want || err != nil {
				t.Errorf("DELETE: %d %v, want %d", status, err, want)
			}
		}
		for _, r := range requests {
			got, never := answer(r.method, r.body, ann.Session, r.header),
				answer(r.method, r.body, "NEVERWASANYSESSIONOFTHISID", r.header)
			if got != never {
				t.Errorf("%s, after the end:\ngot   %s\nnever %s", r.name, got, never)
			}
		}
	})
}

// TestANewTokenKeepsTheSession: only the user and the client of a token count.
func TestANewTokenKeepsTheSession(t *testing.T) {
	b := newBench(t, Config{})
	serve := func(caller mcp.Caller, session, body string) int {
		w := serveNow(b.front, caller, body, http.Header{wire.HeaderSession: {session}})
		return w.Code
	}
	caller := mcp.Caller{Issuer: "i", Subject: "ann", ClientID: "app", Expires: time.Now().Add(time.Hour), Token: "one"}
	w := serveNow(b.front, caller,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, http.Header{})
	id := w.Header().Get(wire.HeaderSession)
	for _, tt := range []struct {
		name string
		next func(mcp.Caller) mcp.Caller
		want int
	}{
		{"refreshed", func(c mcp.Caller) mcp.Caller {
			c.Token, c.Expires, c.Groups, c.Scopes = "two", c.Expires.Add(time.Hour), []string{"other"}, []string{"other"}
			return c
		}, 200},
		{"another subject", func(c mcp.Caller) mcp.Caller { c.Subject = "bob"; return c }, 404},
		{"the same subject of another issuer", func(c mcp.Caller) mcp.Caller { c.Issuer = "j"; return c }, 404},
		{"another client", func(c mcp.Caller) mcp.Caller { c.ClientID = "web"; return c }, 404},
		{"no client", func(c mcp.Caller) mcp.Caller { c.ClientID = ""; return c }, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := serve(tt.next(caller), id,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty"}}`); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
}

// TestAnswersMakeTheNextRound: what runs after an answer runs as the caller of the token that
// came with the answer.
func TestAnswersMakeTheNextRound(t *testing.T) {
	groups := func(b *bench) []string {
		got := b.script.last("tools/call")
		return got.Caller.Groups
	}
	t.Run("stateful", func(t *testing.T) {
		b := newBench(t, Config{})
		c := b.client(v2511, `{"elicitation":{}}`)
		c.Header = http.Header{"Test-Group": {"sre"}}
		x, err := c.Send(t.Context(), "tools/call", `{"name":"ask"}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		q, err := x.Until(mcp.MethodElicit)
		if err != nil {
			t.Fatal(err)
		}
		c.Header = http.Header{"Test-Group": {"nobody"}}
		if err := c.Answer(t.Context(), q.ID, `{"action":"accept"}`); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Response(); err != nil {
			t.Fatal(err)
		}
		if got := groups(b); len(got) != 1 || got[0] != "nobody" {
			t.Errorf("the second round was made by one of %q", got)
		}
	})
	t.Run("stateless", func(t *testing.T) {
		b := newBench(t, Config{})
		c := b.client(v2607, `{"elicitation":{}}`)
		c.Header = http.Header{"Test-Group": {"sre"}}
		m, _, err := c.Call(t.Context(), "tools/call", `{"name":"ask"}`)
		var state string
		if err != nil || !m.Value("requestState", &state) {
			t.Fatalf("%s %v", m.Text, err)
		}
		c.Header = http.Header{"Test-Group": {"nobody"}}
		if _, _, err = c.Call(t.Context(), "tools/call",
			fmt.Sprintf(`{"name":"ask","requestState":%q,"inputResponses":{"q.1":{"action":"accept"}}}`, state)); err != nil {
			t.Fatal(err)
		}
		if got := groups(b); len(got) != 1 || got[0] != "nobody" {
			t.Errorf("the second round was made by one of %q", got)
		}
	})
}

// TestRequestStateOfOthers: a state of another user gets the same answer as a forged one.
func TestRequestStateOfOthers(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2607, `{"elicitation":{}}`)
	m, _, err := c.Call(t.Context(), "tools/call", `{"name":"ask"}`)
	var state string
	if err != nil || !m.Value("requestState", &state) {
		t.Fatalf("%s %v", m.Text, err)
	}
	retry := func(header http.Header, state string) string {
		c.Header = header
		x, err := c.SendID(t.Context(), "1", "tools/call",
			fmt.Sprintf(`{"name":"ask","requestState":%q,"inputResponses":{"q.1":{"action":"accept"}}}`, state))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(x.Status, x.Text())
	}
	before := len(b.script.calls)
	made := retry(nil, strings.Repeat("A", len(state)))
	for name, header := range map[string]http.Header{
		"another user":           {"Test-User": {"eve"}},
		"another client":         {"Test-Client": {"other"}},
		"another user's another": {"Test-User": {"eve"}, "Test-Client": {"other"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := retry(header, state); got != made || !strings.Contains(got, "-32602") {
				t.Errorf("got  %s\nwant %s", got, made)
			}
		})
	}
	if n := len(b.script.calls) - before; n != 0 {
		t.Errorf("%d calls came of it", n)
	}
	// Repeated attempts do not help either, and leave nothing behind.
	altered := state[:len(state)-2] + "AA"
	for range 1000 {
		if got := retry(nil, altered); got != made {
			t.Fatalf("an altered one is answered %s, want %s", got, made)
		}
	}
	if n, load := len(b.script.calls)-before, b.front.Sessions.Load(); n != 0 || load.Calls != 0 || load.Questions != 0 {
		t.Errorf("%d calls came of it, and it holds %+v", n, load)
	}
	// The owner may come again and again: a stateless server is asked each time, as
	// it would be without a gateway. The one-time states of other servers end with their call.
	for range 3 {
		if got := retry(nil, state); !strings.Contains(got, `"state":"st-1"`) {
			t.Errorf("its own is refused: %s", got)
		}
	}
}

// TestResultsOfUsersArePrivate: the server does not know who else may read a result,
// and lists contain what this user may see.
func TestResultsOfUsersArePrivate(t *testing.T) {
	b := newBench(t, Config{})
	body := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"doc://hints",` + meta + `}}`
	for want, caller := range map[string]mcp.Caller{"public": {}, "private": {Issuer: "i", Subject: "ann"}} {
		got := serveNow(b.front, caller, body, modern("resources/read", "doc://hints")).Body.String()
		if strings.Count(got, `"cacheScope"`) != 1 || !strings.Contains(got, `"cacheScope":"`+want+`"`) {
			t.Errorf("%+v is answered %s", caller, got)
		}
	}
}

// TestContextCarriesTheCaller: the caller is in the context, for code that gets only that.
func TestContextCarriesTheCaller(t *testing.T) {
	b := newBench(t, Config{})
	var mu sync.Mutex
	var differ []string
	script := b.front.endpoint.Handler
	b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if got, ok := mcp.CallerFrom(ctx); !ok || fmt.Sprint(got) != fmt.Sprint(c.Caller) {
			mu.Lock()
			defer mu.Unlock()
			differ = append(differ, fmt.Sprintf("%s: %+v in the context of %+v", c.Method, got, c.Caller))
		}
		return script.Handle(ctx, c)
	})
	c := b.client(v2511, `{"elicitation":{}}`)
	c.Header = http.Header{"Test-Group": {"one"}}
	if _, _, err := c.Call(t.Context(), "resources/subscribe", `{"uri":"doc://1"}`); err != nil {
		t.Fatal(err)
	}
	x, err := c.Send(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	q, err := x.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	c.Header = http.Header{"Test-Group": {"two"}}
	if err := c.Answer(t.Context(), q.ID, `{"action":"accept"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Response(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, d := range differ {
		t.Error(d)
	}
}

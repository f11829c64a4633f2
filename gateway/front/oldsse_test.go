package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// old opens a stream of HTTP+SSE, on which no session has begun.
func (b *bench) old(t *testing.T, header http.Header) *mcptest.SSEClient {
	t.Helper()
	c, err := mcptest.OpenSSE(t.Context(), http.DefaultClient, b.url+ssePath, header)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if c.Status != http.StatusOK {
		t.Fatalf("status %d: %s", c.Status, c.Text())
	}
	return c
}

// oldSession is old with a session of a revision.
func (b *bench) oldSession(t *testing.T, revision, caps string) *mcptest.SSEClient {
	t.Helper()
	c := b.old(t, nil)
	answer, err := c.Begin(t.Context(), revision, caps)
	if err != nil || answer.Error != nil {
		t.Fatalf("initialize: %s %v", answer.Text, err)
	}
	return c
}

// oldKey returns the key of the only session.
func (b *bench) oldKey(t *testing.T) string {
	t.Helper()
	all := b.store.Homes().All()
	if len(all) != 1 {
		t.Fatalf("there are %d sessions", len(all))
	}
	return all[0].String()
}

func mustCall(t *testing.T, c *mcptest.SSEClient, method, params string) mcptest.Message {
	t.Helper()
	answer, err := c.Call(t.Context(), method, params)
	if err != nil {
		t.Fatalf("%s %s: %v", method, params, err)
	}
	return answer
}

func TestEndpointComesFirst(t *testing.T) {
	b := newBench(t, Config{})
	ids := map[string]bool{}
	for range 10 {
		resp, err := http.Get(b.url + ssePath)
		if err != nil {
			t.Fatal(err)
		}
		h := resp.Header
		if h.Get("Content-Type") != "text/event-stream" || h.Get("Cache-Control") != "no-cache" ||
			h.Get("X-Accel-Buffering") != "no" || h.Get(wire.HeaderSession) != "" {
			t.Errorf("headers %v", h)
		}
		first, err := bufio.NewReader(resp.Body).ReadString('\n')
		resp.Body.Close()
		if err != nil || first != "event: endpoint\n" {
			t.Fatalf("the first line is %q, %v", first, err)
		}
		endpoint := b.old(t, nil).Endpoint
		id, ok := strings.CutPrefix(endpoint, "/sse/messages?c=")
		if !ok || len(id) < 26 || ids[id] { // of base32: 130 bits
			t.Errorf("endpoint %q", endpoint)
		}
		ids[id] = true
	}
}

func TestAnswersComeOnTheStream(t *testing.T) {
	b := newBench(t, Config{})
	c := b.old(t, nil)
	answer, err := c.Begin(t.Context(), v2024, `{}`) // it expects 202 and no body for each message
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{"listChanged":true},` +
		`"resources":{"subscribe":true,"listChanged":true},"prompts":{},"logging":{}},"serverInfo":{"name":"gate","version":"1"},"instructions":"Be kind."}}`
	if answer.Text != want || answer.EventName != "message" || answer.EventID != "" {
		t.Errorf("event %q with id %q: %s, want %s", answer.EventName, answer.EventID, answer.Text, want)
	}
	for id, tt := range map[string]struct{ method, params, want string }{
		`"a"`: {"tools/call", `{"name":"echo","arguments":{"x":1.0}}`,
			`{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"{\"got\":{\"x\":1.0}}"}]}}`},
		`1.5`: {"ping", `{}`, `{"jsonrpc":"2.0","id":1.5,"result":{}}`},
		`10`: {"tools/call", `{"name":"none"}`,
			`{"jsonrpc":"2.0","id":10,"error":{"code":-32602,"message":"Unknown tool: none","data":{"error_code":"GH-NOT-FOUND"}}}`},
		`11`: {"server/discover", `{}`, `-32601`},
		`12`: {"subscriptions/listen", `{}`, `-32601`},
		`13`: {"no/such", `{}`, `-32601`},
		`14`: {"tools/call", `{}`, `-32602`},
		`15`: {"logging/setLevel", `{"level":"loud"}`, `-32602`},
		`16`: {"tools/call", `{"name":"panic"}`, `-32603`},
		`17`: {"tools/call", `{"name":"broken"}`, `"internal error"`},
		`18`: {"tools/call", `{"name":"limited"}`, fmt.Sprint(mcp.CodeRateLimited)},
		`19`: {"tools/list", `{"cursor":"3"}`, `Invalid cursor`},
	} {
		if err := c.Send(t.Context(), id, tt.method, tt.params); err != nil {
			t.Errorf("%s: %v", tt.method, err)
			continue
		}
		answer, err := c.Answered(id)
		if err != nil || !strings.Contains(answer.Text, tt.want) || answer.EventName != "message" {
			t.Errorf("%s %s: %s, %v; want %s", tt.method, tt.params, answer.Text, err, tt.want)
		}
	}
	if len(c.Before) > 0 {
		t.Errorf("and %v", c.Before)
	}
}

// A stream belongs to its user and its client. For anybody else it does not exist.
func TestForeignStreams(t *testing.T) {
	b := newBench(t, Config{})
	as := func(user, client string) http.Header {
		return http.Header{"Test-User": {user}, "Test-Client": {client}}
	}
	c := b.old(t, as("ann", "app"))
	if _, err := c.Begin(t.Context(), v2024, `{}`); err != nil {
		t.Fatal(err)
	}
	own, id, _ := strings.Cut(c.Messages, "=")
	gone := b.old(t, as("ann", "app"))
	gone.Close()
	for _, tt := range []struct {
		name, messages string
		as             http.Header
	}{
		{"another user", c.Messages, as("bob", "app")},
		{"another client of the same user", c.Messages, as("ann", "other")},
		{"nobody", c.Messages, http.Header{"Test-User": nil, "Test-Client": nil}},
		{"an id that does not exist", own + "=" + strings.Repeat("A", 26), as("ann", "app")},
		{"an id in another case", own + "=" + strings.ToLower(id), as("ann", "app")},
		{"no id", strings.TrimSuffix(own, "?c"), as("ann", "app")},
		{"an empty id", own + "=", as("ann", "app")},
		{"two ids", c.Messages + "&c=" + id, as("ann", "app")},
		{"the key of the session", own + "=" + b.oldKey(t), as("ann", "app")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, body := range []string{
				`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`,
				`{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}`,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
				`{"jsonrpc":"2.0","id":"x","result":{}}`,
				`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`,
			} {
				own := c.Messages
				c.Messages = tt.messages
				x, err := c.Post(t.Context(), body, tt.as)
				c.Messages = own
				if err != nil {
					t.Fatal(err)
				}
				const want = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"there is no such stream, any more: open one by GET","data":{"error_code":"GH-STREAM-NOT-FOUND"}}}`
				if text := x.Text(); x.Status != 404 || text != want {
					t.Errorf("%s: status %d: %s", body, x.Status, text)
				}
				x.Close()
			}
		})
	}
	if got := b.script.last(mcp.MethodToolsCall); got.Name != "" {
		t.Errorf("a call was made: %s", got.Name)
	}
	if answer := mustCall(t, c, "tools/call", `{"name":"empty"}`); answer.Error != nil || len(c.Before) > 0 {
		t.Errorf("its own client: %s after %v", answer.Text, c.Before)
	}
	t.Run("a stream that was closed", func(t *testing.T) {
		for {
			x, err := gone.Post(t.Context(), `{"jsonrpc":"2.0","id":7,"method":"ping"}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			x.Close()
			if x.Status == 404 {
				return
			}
		}
	})
}

// Everything of a stream ends with it.
func TestTheEndOfTheStream(t *testing.T) {
	const initialize = `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}}}`
	b := newBench(t, Config{})
	c := b.oldSession(t, v2511, `{"elicitation":{}}`)
	key := b.oldKey(t)
	b.script.waitListening(t, 1)
	if err := c.Send(t.Context(), "1", "tools/call", `{"name":"slow"}`); err != nil {
		t.Fatal(err)
	}
	receive(t, "the call", b.script.started)
	if err := c.Send(t.Context(), "2", "tools/call", `{"name":"ask-here"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Until(mcp.MethodElicit); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if reason := receive(t, "the end of the question", b.script.dropped); reason != "the session has ended" {
		t.Errorf("dropped because of %q", reason)
	}
	if err := receive(t, "the end of a call", b.script.ended); err == nil {
		t.Error("a call was not cancelled")
	}
	b.script.waitListening(t, 0)
	if _, err := b.store.Homes().Use(t.Context(), home.ParseKey(key)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the session is still there: %v", err)
	}
	t.Run("while its session begins", func(t *testing.T) {
		b := newBench(t, Config{})
		discovering := make(chan struct{})
		inner := b.front.endpoint.Handler
		b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Method == mcp.MethodDiscover {
				close(discovering)
				<-ctx.Done() // and continues as if nothing had happened
			}
			return inner.Handle(ctx, call)
		})
		ended := make(chan struct{}, 1)
		b.onEnd = func(string) { ended <- struct{}{} }
		c := b.old(t, nil)
		if err := c.Send(t.Context(), "1", "initialize", initialize); err != nil {
			t.Fatal(err)
		}
		receive(t, "the request", discovering)
		c.Close()
		receive(t, "the end of the session", ended)
	})
	t.Run("the session ends first", func(t *testing.T) {
		b := newBench(t, Config{})
		c := b.oldSession(t, v2024, `{}`)
		if err := b.store.Homes().Known(home.ParseKey(b.oldKey(t))).End(t.Context(), home.Ended); err != nil {
			t.Fatal(err)
		}
		if rest := c.Text(); rest != ": the session has ended\n\n" {
			t.Errorf("the stream goes on with %q", rest)
		}
	})
}

// What the endpoint refuses is refused on both paths.
func TestOldChecks(t *testing.T) {
	b := newBench(t, Config{AllowedOrigins: []string{"https://app.example"}, MaxRequestBytes: 1000})
	c := b.oldSession(t, v2024, `{}`)
	messages := strings.TrimPrefix(c.Messages, b.url)
	send := func(method, path, body string, header http.Header) (*http.Response, string) {
		t.Helper()
		was := b.url
		b.url += path
		defer func() { b.url = was }()
		return b.send(method, body, header)
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name, method, path, body string
		header                   http.Header
		status                   int
		want                     []string // in the headers, with their names, or in the body
	}{
		{"a foreign page's stream", "GET", ssePath, "", http.Header{"Origin": {"https://evil.example"}}, 403, nil},
		{"a foreign page's message", "POST", messages, ping, http.Header{"Origin": {"https://evil.example"}}, 403, nil},
		{"an allowed page", "POST", messages, ping, http.Header{"Origin": {"https://app.example"}}, 202,
			[]string{"Access-Control-Allow-Origin: https://app.example"}},
		{"a foreign Host at the stream", "GET", ssePath, "", http.Header{"Host": {"evil.example"}}, 403, nil},
		{"a foreign Host at the messages", "POST", messages, ping, http.Header{"Host": {"evil.example"}}, 403, nil},
		{"a preflight", "OPTIONS", messages, "", http.Header{"Origin": {"https://app.example"},
			"Access-Control-Request-Method": {"POST"}}, 204,
			[]string{"Access-Control-Allow-Methods: POST", "Allow: POST, OPTIONS"}},
		{"a foreign page's preflight", "OPTIONS", messages, "", http.Header{"Origin": {"https://evil.example"}}, 403, nil},
		{"a newer client tries the stream first", "POST", ssePath, ping, nil, 405, []string{"Allow: GET, OPTIONS", "-32600"}},
		{"GET of messages", "GET", messages, "", nil, 405, []string{"Allow: POST, OPTIONS"}},
		{"DELETE", "DELETE", ssePath, "", nil, 405, nil},
		{"a client that takes no stream", "GET", ssePath, "", http.Header{"Accept": {"application/json"}}, 406, nil},
		{"Accept of a message does not matter", "POST", messages, ping, http.Header{"Accept": {"image/png"}}, 202, nil},
		{"nor does a version", "POST", messages, ping, http.Header{wire.HeaderVersion: {"1999-01-01"}}, 202, nil},
		{"not JSON", "POST", messages, ping, http.Header{"Content-Type": {"text/plain"}}, 415, []string{`"id":1`}},
		{"compressed", "POST", messages, ping, http.Header{"Content-Encoding": {"gzip"}}, 415, nil},
		{"too large", "POST", messages, `{"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":"` +
			strings.Repeat("x", 1000) + `"}}`, nil, 413, []string{`"id":8`}},
		{"malformed", "POST", messages, `{"jsonrpc":"2.0","id":1`, nil, 400, []string{`-32700`}},
		{"no request", "POST", messages, `{"id":1}`, nil, 400, []string{`-32600`, `"id":1`}},
		{"twins", "POST", messages, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`, nil,
			400, []string{`-32602`}},
		{"a notification that nobody knows", "POST", messages, `{"jsonrpc":"2.0","method":"no/such"}`, nil, 202, nil},
		{"an answer to nothing", "POST", messages, `{"jsonrpc":"2.0","id":"gatehouse-x","result":{}}`, nil, 202, nil},
		{"a cancellation of nothing", "POST", messages,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`, nil, 202, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, text := send(tt.method, tt.path, tt.body, tt.header)
			var all strings.Builder
			_ = resp.Header.Write(&all)
			all.WriteString(text)
			if resp.StatusCode != tt.status || tt.status == 202 && text != "" {
				t.Errorf("status %d: %s", resp.StatusCode, text)
			}
			for _, want := range tt.want {
				if !strings.Contains(all.String(), want) {
					t.Errorf("no %q in %s", want, all.String())
				}
			}
		})
	}
	t.Run("off", func(t *testing.T) {
		for _, path := range []string{"", SSEOff} {
			b.front.cfg.SSEPath = path
			if stream, messages := b.front.SSEPaths(); stream != "" || messages != "" {
				t.Errorf("%q: served at %q and %q", path, stream, messages)
			}
		}
	})
}

// The order of the lifecycle's messages.
func TestOldLifecycle(t *testing.T) {
	b := newBench(t, Config{})
	c := b.old(t, nil)
	if answer := mustCall(t, c, "ping", `{}`); string(answer.Result) != `{}` {
		t.Errorf("ping: %s", answer.Text)
	}
	for _, tt := range []struct{ method, params, want string }{
		{"tools/list", `{}`, `"code":-32600`},
		{"server/discover", `{` + meta + `}`, `"code":-32601`}, // of a client that knows both eras
		{"initialize", `{"protocolVersion":1}`, `"code":-32602`},
		{"initialize", `{"protocolVersion":"2024-11-05","capabilities":[]}`, `"code":-32602`},
	} {
		if answer := mustCall(t, c, tt.method, tt.params); !strings.Contains(answer.Text, tt.want) {
			t.Errorf("%s before the session: %s", tt.method, answer.Text)
		}
	}
	x, err := c.Post(t.Context(), `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil)
	if err != nil || x.Status != 400 {
		t.Errorf("a batch before the session: %v %v", x, err)
	}
	x.Close()
	if answer, err := c.Begin(t.Context(), v2607, `{}`); err != nil || !strings.Contains(answer.Text, v2511) {
		t.Errorf("a revision that has no sessions: %s %v", answer.Text, err)
	}
	if answer := mustCall(t, c, "initialize", `{"protocolVersion":"2024-11-05","capabilities":{}}`); answer.Error == nil ||
		answer.Error.Code != -32600 {
		t.Errorf("a second initialize: %s", answer.Text)
	}
	if answer := mustCall(t, c, "tools/call", `{"name":"empty"}`); answer.Error != nil {
		t.Errorf("after it: %s", answer.Text)
	}
	t.Run("a handshake that failed may be made again", func(t *testing.T) {
		b := newBench(t, Config{})
		inner, down := b.front.endpoint.Handler, true
		b.front.endpoint.Handler = mcp.HandlerFunc(func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Method == mcp.MethodDiscover && down {
				down = false
				return nil, errors.New("secret detail")
			}
			return inner.Handle(ctx, call)
		})
		c := b.old(t, nil)
		if answer, err := c.Begin(t.Context(), v2024, `{}`); err != nil || answer.Error == nil ||
			strings.Contains(answer.Text, "secret") {
			t.Fatalf("%s %v", answer.Text, err)
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the answer comes a moment before
			if answer, err := c.Begin(t.Context(), v2024, `{}`); err == nil && answer.Error == nil {
				return
			}
		}
		t.Error("it cannot be made again")
	})
	t.Run("nothing is asked before initialized", func(t *testing.T) {
		b := newBench(t, Config{})
		c := b.old(t, nil)
		mustCall(t, c, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}}}`)
		b.script.waitListening(t, 0)
		if answer := mustCall(t, c, "tools/call", `{"name":"ask"}`); !strings.Contains(answer.Text,
			"notifications/initialized") || len(c.Before) > 0 {
			t.Errorf("%s after %v", answer.Text, c.Before)
		}
		if err := c.Notify(t.Context(), mcp.NoteInitialized, `{}`); err != nil {
			t.Fatal(err)
		}
		b.script.waitListening(t, 1)
	})
}

// This transport has everything of the newer revisions except event ids.
func TestOldRevisions(t *testing.T) {
	for _, revision := range []string{v2024, v2503, v2506, v2511} {
		t.Run(revision, func(t *testing.T) {
			b := newBench(t, Config{})
			c := b.oldSession(t, revision, `{"elicitation":{},"sampling":{},"roots":{}}`)
			b.script.waitListening(t, 1)
			t.Run("progress", func(t *testing.T) {
				before := len(c.Before)
				mustCall(t, c, "tools/call", `{"name":"progress","_meta":{"progressToken":"tok"}}`)
				var got []string
				for _, m := range c.Before[before:] {
					var value, token = 0.0, ""
					m.Param("progress", &value)
					m.Param("progressToken", &token)
					_, text := strings.CutPrefix(m.Text, `"message"`)
					got = append(got, fmt.Sprint(m.Method, token, value, text))
				}
				if len(got) != 5 || !strings.HasPrefix(got[0], mcp.NoteProgress+"tok1") {
					t.Errorf("got %q", got)
				}
			})
			t.Run("log messages", func(t *testing.T) {
				mustCall(t, c, "logging/setLevel", `{"level":"error"}`)
				before := len(c.Before)
				mustCall(t, c, "tools/call", `{"name":"log"}`)
				if got := c.Before[before:]; len(got) != 1 || got[0].Method != mcp.NoteMessage {
					t.Errorf("got %v", got)
				}
			})
			t.Run("subscriptions", func(t *testing.T) {
				mustCall(t, c, "resources/subscribe", `{"uri":"doc://1"}`)
				b.script.emit(mcp.NoteResourceUpdated, `{"uri":"doc://1"}`)
				if m, err := c.Until(mcp.NoteResourceUpdated); err != nil || !strings.Contains(m.Text, "doc://1") {
					t.Errorf("%s %v", m.Text, err)
				}
				mustCall(t, c, "resources/unsubscribe", `{"uri":"doc://1"}`)
			})
			t.Run("list_changed", func(t *testing.T) {
				b.script.waitListening(t, 1)
				b.script.emit(mcp.NoteToolsListChanged, `{}`)
				if _, err := c.Until(mcp.NoteToolsListChanged); err != nil {
					t.Error(err)
				}
			})
			for tool, q := range map[string]struct{ method, answer, want string }{
				"ask-sampling": {mcp.MethodCreateMessage, `{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`,
					`"model":"m"`},
				"ask-roots": {mcp.MethodRootsList, `{"roots":[{"uri":"file:///a"}]}`, `file:///a`},
				"ask":       {mcp.MethodElicit, `{"action":"accept","content":{"a":1}}`, `"action":"accept"`},
			} {
				t.Run(tool, func(t *testing.T) {
					if err := c.Send(t.Context(), `"q"`, "tools/call", `{"name":"`+tool+`"}`); err != nil {
						t.Fatal(err)
					}
					if tool == "ask" && revision < v2506 {
						answer, err := c.Answered(`"q"`) // the revision has no such question
						if err != nil || !strings.Contains(answer.Text, "did not declare") {
							t.Errorf("%s %v", answer.Text, err)
						}
						return
					}
					m, err := c.Until(q.method)
					if err != nil {
						t.Fatal(err)
					}
					if m.EventName != "message" {
						t.Errorf("the question is an event %q", m.EventName)
					}
					if err := c.Answer(t.Context(), m.ID, q.answer); err != nil {
						t.Fatal(err)
					}
					if answer, err := c.Answered(`"q"`); err != nil ||
						!strings.Contains(strings.ReplaceAll(answer.Text, `\"`, `"`), q.want) {
						t.Errorf("%s %v", answer.Text, err)
					}
				})
			}
			t.Run("cancellation", func(t *testing.T) {
				if err := c.Send(t.Context(), `"c"`, "tools/call", `{"name":"slow"}`); err != nil {
					t.Fatal(err)
				}
				receive(t, "the call", b.script.started)
				if err := c.Notify(t.Context(), mcp.NoteCancelled, `{"requestId":"c"}`); err != nil {
					t.Fatal(err)
				}
				if err := receive(t, "its end", b.script.ended); err == nil {
					t.Error("it was not cancelled")
				}
				before := len(c.Before)
				mustCall(t, c, "ping", `{}`)
				if got := c.Before[before:]; len(got) > 0 {
					t.Errorf("it was answered: %v", got)
				}
			})
			t.Run("batches", func(t *testing.T) {
				x, err := c.Post(t.Context(), `[{"jsonrpc":"2.0","id":"b1","method":"ping"},{"jsonrpc":"2.0","method":"x"},
					{"jsonrpc":"2.0","id":"b2","method":"tools/call","params":{"name":"empty"}},
					{"jsonrpc":"2.0","id":"b3","method":"initialize","params":{}},{"jsonrpc":"2.0","id":"b4","method":1}]`, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				if revision >= v2506 {
					if x.Status != 400 {
						t.Errorf("status %d: %s", x.Status, x.Text())
					}
					return
				}
				if x.Status != 202 {
					t.Fatalf("status %d: %s", x.Status, x.Text())
				}
				got := map[string]string{}
				for len(got) < 4 {
					m, err := c.Next()
					if err != nil {
						t.Fatal(err)
					}
					got[string(m.ID)] = m.Text
				}
				for id, want := range map[string]string{`"b1"`: `"result":{}`, `"b2"`: `"result":{}`, `"b3"`: `-32600`,
					`"b4"`: `-32600`} {
					if !strings.Contains(got[id], want) {
						t.Errorf("%s: %s, want %s", id, got[id], want)
					}
				}
			})
			if ids := slices.Compact(slices.Sorted(slices.Values(c.EventIDs()))); len(ids) != 1 || ids[0] != "" {
				t.Errorf("events have ids: %q", ids)
			}
		})
	}
}

// Answers do not wait for each other.
func TestOldCallsAtOnce(t *testing.T) {
	b := newBench(t, Config{})
	c := b.oldSession(t, v2024, `{}`)
	for _, id := range []string{"1001", "1002"} {
		if err := c.Send(t.Context(), id, "tools/call", `{"name":"slow","_meta":{"progressToken":`+id+`}}`); err != nil {
			t.Fatal(err)
		}
		receive(t, "the call", b.script.started)
	}
	if answer := mustCall(t, c, "tools/call", `{"name":"empty"}`); answer.Error != nil {
		t.Errorf("meanwhile: %s", answer.Text)
	}
	got := map[string]int{}
	b.script.release <- struct{}{}
	b.script.release <- struct{}{}
	for range 4 {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		token := ""
		if m.IsResponse() {
			token = string(m.ID)
		} else {
			var n int
			m.Param("progressToken", &n)
			token = fmt.Sprint(n)
		}
		got[token]++
	}
	if got["1001"] != 2 || got["1002"] != 2 {
		t.Errorf("messages of %v, want progress and an answer for each", got)
	}
}

// An id that is used twice at the same time gets two answers.
func TestOldIDsTwice(t *testing.T) {
	b := newBench(t, Config{})
	c := b.oldSession(t, v2024, `{}`)
	for range 2 {
		if err := c.Send(t.Context(), "5", "tools/call", `{"name":"slow"}`); err != nil {
			t.Fatal(err)
		}
		receive(t, "the call", b.script.started)
		b.script.release <- struct{}{}
	}
	for range 2 {
		if answer, err := c.Answered("5"); err != nil || answer.Error != nil {
			t.Errorf("%s %v", answer.Text, err)
		}
	}
}

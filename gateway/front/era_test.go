package front

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// wantAnswer is what a table expects of one request. want are texts that its body contains.
type wantAnswer struct {
	name   string
	method string
	header http.Header
	body   string
	status int
	want   []string
}

func (w wantAnswer) run(t *testing.T, b *bench) {
	t.Helper()
	method := w.method
	if method == "" {
		method = http.MethodPost
	}
	resp, text := b.send(method, w.body, w.header)
	if resp.StatusCode != w.status {
		t.Errorf("status %d, want %d: %s", resp.StatusCode, w.status, text)
	}
	for _, part := range w.want {
		if not, ok := strings.CutPrefix(part, "!"); ok {
			if strings.Contains(text, not) {
				t.Errorf("the body has %q: %s", not, text)
			}
		} else if !strings.Contains(text, part) {
			t.Errorf("the body lacks %q: %s", part, text)
		}
	}
}

func call(id, name string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `",` + meta + `}}`
}

func plain(id, method string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + meta + `}}`
}

func with(h http.Header, more ...string) http.Header {
	h = h.Clone()
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = append(h[more[i]], more[i+1])
	}
	return h
}

func set(h http.Header, name string, values ...string) http.Header {
	h = h.Clone()
	h[name] = values
	return h
}

func TestEra(t *testing.T) {
	b := newBench(t, Config{})
	session := http.Header{wire.HeaderSession: {b.client(v2506).Session}}
	old := strings.ReplaceAll(plain("1", "tools/list"), v2607, v2506)
	future := strings.ReplaceAll(plain("1", "tools/list"), v2607, "2027-01-01")
	for _, w := range []wantAnswer{
		{name: "a session header beside _meta is ignored",
			header: with(modern("tools/call", "empty"), wire.HeaderSession, "no-such-session"),
			body:   call("1", "empty"), status: 200, want: []string{`"resultType"`}},
		{name: "header without _meta", header: modern("tools/list", ""),
			body:   `{"jsonrpc":"2.0","id":"a","method":"tools/list"}`,
			status: 400, want: []string{`-32602`, `"id":"a"`}},
		{name: "no capabilities", header: modern("tools/list", ""),
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
			status: 400, want: []string{`-32602`, `"id":1`}},
		{name: "no clientInfo", header: modern("tools/list", ""), body: plain("1", "tools/list"), status: 200},
		{name: "a future version", header: set(modern("tools/list", ""), wire.HeaderVersion, "2027-01-01"), body: future,
			status: 400, want: []string{`-32022`, `"supported":["2026-07-28"]`, `"requested":"2027-01-01"`, `"id":1`}},
		{name: "a stateful version in _meta", header: set(modern("tools/list", ""), wire.HeaderVersion, v2506), body: old,
			status: 400, want: []string{`-32022`}},
		{name: "header and _meta differ", header: set(modern("tools/list", ""), wire.HeaderVersion, v2506),
			body:   plain("1", "tools/list"),
			status: 400, want: []string{`-32020`}},
		{name: "a stateless header over a session's body",
			header: with(session, wire.HeaderVersion, v2607, wire.HeaderMethod, "tools/list"),
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400, want: []string{`-32602`}},
		{name: "initialize", header: modern("initialize", ""), body: plain("1", "initialize"), status: 404,
			want: []string{`-32601`}},
		{name: "ping", header: modern("ping", ""), body: plain("1", "ping"), status: 404, want: []string{`-32601`}},
		{name: "logging/setLevel", header: modern("logging/setLevel", ""), body: plain("1", "logging/setLevel"), status: 404,
			want: []string{`-32601`}},
		{name: "resources/subscribe", header: modern("resources/subscribe", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"doc://1",` + meta +
				`}}`, status: 404, want: []string{`-32601`}},
		{name: "resources/unsubscribe", header: modern("resources/unsubscribe", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"doc://1",` + meta +
				`}}`, status: 404, want: []string{`-32601`}},
		{name: "resources/subscribe without a uri", header: modern("resources/subscribe", ""),
			body:   plain("1", "resources/subscribe"),
			status: 404, want: []string{`-32601`, `"id":1`}},
		{name: "resources/unsubscribe of a number", header: modern("resources/unsubscribe", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":7,` + meta +
				`}}`, status: 404, want: []string{`-32601`}},
		{name: "ping without Mcp-Method", header: http.Header{wire.HeaderVersion: {v2607}}, body: plain("1", "ping"),
			status: 404, want: []string{`-32601`}},
		{name: "initialize without capabilities", header: modern("initialize", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, status: 404, want: []string{`-32601`}},
		{name: "a method that nobody knows", header: modern("foo/bar", ""), body: plain("1", "foo/bar"), status: 404,
			want: []string{`-32601`, `"id":1`}},
		{name: "server/discover before anything else", header: modern("server/discover", ""),
			body:   plain("1", "server/discover"),
			status: 200, want: []string{`"supportedVersions":["2026-07-28"]`, `"capabilities":{`, `"resultType":"complete"`,
				`"ttlMs":`, `"cacheScope":`}},
		{name: "server/discover in a session", header: session, body: `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`,
			status: 200, want: []string{`-32601`}},
		{name: "subscriptions/listen in a session", header: session,
			body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`, status: 200, want: []string{`-32601`}},
		{name: "an unknown version header", header: with(session, wire.HeaderVersion, "1999-01-01"),
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			status: 400, want: []string{`"id":1`}},
		{name: "no version header", header: session,
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`,
			status: 200, want: []string{`structuredContent`}},
		// PROTOCOL 2.2 over HAZARDS 107: the negotiated version counts, since the header is a
		// SHOULD and some clients send the newest version they know.
		{name: "another known version than negotiated", header: with(session, wire.HeaderVersion, v2511),
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 200},
		// Without a session, 2025-03-26 also has nothing that could be asked except initialize
		// and ping.
		{name: "no session and no version header", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400,
			want: []string{`-32600`, `"id":1`}},
		{name: "an old version header and no session", header: http.Header{wire.HeaderVersion: {v2506}},
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400},
		{name: "ping without a session", body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 200,
			want: []string{`"result":{}`}},
		{name: "a response in stateless framing", header: http.Header{wire.HeaderVersion: {v2607}},
			body:   `{"jsonrpc":"2.0","id":1,"result":{}}`,
			status: 400, want: []string{`-32600`, `"id":null`}},
		{name: "a stateless notification", header: http.Header{wire.HeaderVersion: {v2607}},
			body: `{"jsonrpc":"2.0","method":"notifications/x"}`, status: 202},
		{name: "a stateless batch", header: modern("ping", ""), body: `[` + plain("1", "tools/list") + `]`, status: 400,
			want: []string{`-32600`}},
		{name: "two version headers", header: with(modern("tools/list", ""), wire.HeaderVersion, v2607),
			body: plain("1", "tools/list"), status: 400, want: []string{`-32020`}},
		{name: "two version headers of a session", header: with(session, wire.HeaderVersion, v2506, wire.HeaderVersion,
			v2506), body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 400},
		{name: "initialize without a version", body: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
			status: 400, want: []string{`-32602`}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

// A client never chooses the id of a session. HAZARDS 54 demands -32600 for a second
// initialize in a session. Over HTTP that would keep out clients that start again and still
// send their old id. They get another session, and the first one is left alone.
func TestSessionIDsAreNotTheClients(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	first := c.Session
	ids := map[string]bool{first: true}
	for _, proposed := range []string{strings.Repeat("A", 26), first, "x", strings.Repeat("x", 1000)} {
		x, err := c.Do(t.Context(), http.MethodPost,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`,
			http.Header{wire.HeaderSession: {proposed}})
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		given := x.Header.Get(wire.HeaderSession)
		if x.Status != http.StatusOK || len(given) != 26 || ids[given] || given == proposed {
			t.Errorf("%.30q is proposed: status %d, session %q", proposed, x.Status, given)
		}
		ids[given] = true
	}
	for id, want := range map[string]int{strings.Repeat("A", 26): http.StatusNotFound, first: http.StatusOK} {
		c.Session = id
		x, err := c.Post(t.Context(), `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		if x.Status != want {
			t.Errorf("session %s: status %d, want %d", id, x.Status, want)
		}
	}
}

func TestErasSideBySide(t *testing.T) {
	b := newBench(t, Config{})
	stateful, stateless := b.client(v2511), b.client(v2607)
	for range 3 {
		if r, _, err := stateful.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil || string(r.Result) != `{}` {
			t.Errorf("stateful: %s %v", r.Text, err)
		}
		if r, _, err := stateless.Call(t.Context(), "tools/call", `{"name":"empty"}`); err != nil ||
			!strings.Contains(r.Text, "resultType") {
			t.Errorf("stateless: %s %v", r.Text, err)
		}
	}
}

func TestNegotiation(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct{ offered, want string }{
		{v2024, v2024}, {v2503, v2503}, {v2506, v2506}, {v2511, v2511}, {v2607, v2511}, {"2030-01-01", v2511}, {"", v2511},
	} {
		t.Run(c.offered, func(t *testing.T) {
			resp, text := b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+c.offered+
				`","capabilities":{}}}`, nil)
			if !strings.Contains(text, `"protocolVersion":"`+c.want+`"`) {
				t.Errorf("got %s, want %s", text, c.want)
			}
			del, _ := b.send("DELETE", "", http.Header{wire.HeaderSession: resp.Header[wire.HeaderSession]})
			if del.StatusCode != http.StatusNoContent {
				t.Errorf("DELETE: %d", del.StatusCode)
			}
		})
	}
}

func TestCapabilitiesPerRequest(t *testing.T) {
	b := newBench(t, Config{})
	one, two := b.client(v2607, `{"roots":{}}`), b.client(v2607, `{"sampling":{}}`)
	for _, c := range []struct {
		name, want string
		call       func() error
	}{
		{"first", `{"roots":{}}`,
			func() error { _, _, err := one.Call(t.Context(), "tools/call", `{"name":"empty"}`); return err }},
		{"second", `{"sampling":{}}`,
			func() error { _, _, err := two.Call(t.Context(), "tools/call", `{"name":"empty"}`); return err }},
	} {
		if err := c.call(); err != nil {
			t.Fatal(err)
		}
		got := b.script.last(mcp.MethodToolsCall)
		if string(got.Caps) != c.want {
			t.Errorf("%s: capabilities %s, want %s", c.name, got.Caps, c.want)
		}
		if !got.Ephemeral || !strings.HasPrefix(got.Session, got.Caller.User()+":~") {
			t.Errorf("%s: session %q, ephemeral %t", c.name, got.Session, got.Ephemeral)
		}
	}
}

func TestDerivedSession(t *testing.T) {
	a := mcp.NewCaller(mcp.Caller{Subject: "a", ClientID: "x"})
	otherClient := mcp.NewCaller(mcp.Caller{Subject: "a", ClientID: "y"})
	info := mcp.Raw(`{"name":"c"}`)
	base := derivedID(a, info)
	if base != derivedID(a, info) {
		t.Error("one client has two sessions")
	}
	for name, s := range map[string]string{"client": derivedID(otherClient, info), "info": derivedID(a, nil)} {
		if s == base {
			t.Errorf("another %s has the same session", name)
		}
	}
}

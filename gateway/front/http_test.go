package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

func TestEnvelope(t *testing.T) {
	b := newBench(t, Config{MaxRequestBytes: 4096})
	m := modern("tools/call", "echo")
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for _, w := range []wantAnswer{
		{name: "no JSON", body: `{"jsonrpc":`, status: 400, want: []string{`-32700`, `"id":null`}},
		{name: "empty", body: ``, status: 400, want: []string{`-32700`}},
		{name: "two documents", body: `{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, status: 400, want: []string{`-32700`}},
		{name: "empty batch", body: `[]`, status: 400, want: []string{`-32600`}},
		{name: "null", body: `null`, status: 400, want: []string{`-32600`}},
		{name: "id null", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400, want: []string{`-32600`}},
		{name: "ids come back as they are", header: m, body: call(`9007199254740993.10`, "echo"), status: 200,
			want: []string{`"id":9007199254740993.10,`}},
		{name: "a string id", header: m, body: call(`"\u0031<\""`, "echo"), status: 200, want: []string{`"id":"\u0031<\"",`}},
		{name: "in errors too", header: modern("x", ""), body: plain(`"1"`, "x"), status: 404, want: []string{`"id":"1"`}},
		{name: "an id that is no id", header: m, body: call(`{}`, "echo"), status: 400, want: []string{`-32600`}},
		{name: "a long id", header: m, body: call(`"`+strings.Repeat("x", 300)+`"`, "echo"), status: 400,
			want: []string{`-32600`}},
		{name: "a duplicate method", header: m, body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, status: 400,
			want: []string{`-32700`}},
		{name: "a duplicate name", header: m,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"slow",` + meta +
				`}}`, status: 400, want: []string{`-32602`, `"id":1`}},
		{name: "a name in another case", header: m,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","Name":"slow",` + meta +
				`}}`, status: 400, want: []string{`-32602`}},
		{name: "an escaped name", header: m,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"n\u0061me":"echo",` + meta +
				`}}`, status: 400, want: []string{`-32602`}},
		{name: "a duplicate in _meta", header: modern("tools/list", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1,"progressToken":2}}}`, status: 400, want: []string{`-32602`}},
		{name: "a duplicate in ref", header: modern("completion/complete", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"a","name":"b"},` + meta + `}}`, status: 400, want: []string{`-32602`}},
		{name: "an escaped value", header: m, body: call("1", `ech\u006f`), status: 200, want: []string{`"got":null`}},
		{name: "deep", header: m, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` +
			deep + `}}`, status: 400, want: []string{`-32700`}},
		{name: "a lone surrogate in a name", header: m, body: call("1", `\ud800`), status: 400, want: []string{`-32602`}},
		{name: "invalid UTF-8", header: m, body: call("1", "\xff"), status: 400, want: []string{`-32700`}},
		{name: "a byte order mark", header: m, body: "\ufeff" + call("1", "echo"), status: 400, want: []string{`-32700`}},
		{name: "numbers", header: m,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":12345678901234567890.123},` + meta + `}}`, status: 200, want: []string{`{"got":{"n":12345678901234567890.123}}`}},
		{name: "jsonrpc", body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, status: 400, want: []string{`-32600`, `"id":1`}},
		{name: "params is an array", body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, status: 400,
			want: []string{`-32602`, `"id":1`}},
		{name: "a long method", body: `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 300) + `"}`, status: 400,
			want: []string{`-32600`}},
		{name: "a request-only method without an id", header: m,
			body: `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"panic",` + meta +
				`}}`, status: 202, want: []string{`!{`}},
		{name: "a notification with an id", body: `{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}`,
			status: 400, want: []string{`-32600`}},
		{name: "an unknown method", header: modern("x/y", ""), body: plain("1", "x/y"), status: 404,
			want: []string{`-32601`, `"id":1`}},
		{name: "no name", header: m, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + meta + `}}`,
			status: 400, want: []string{`-32602`}},
		{name: "too large", header: m, body: call("77", "echo") + strings.Repeat(" ", 4096), status: 413,
			want: []string{`"id":77`}},
		{name: "an unknown tool", header: modern("tools/call", "zzz"), body: call("1", "zzz"), status: 200,
			want: []string{`-32602`, `Unknown tool: zzz`}},
		{name: "an upstream's answer that is no object", header: modern("tools/call", "no-object"),
			body: call("1", "no-object"), status: 200, want: []string{`50202`}},
		{name: "a panic", header: modern("tools/call", "panic"), body: call("1", "panic"), status: 500,
			want: []string{`-32603`, `"id":1`, `request_id`, `!on purpose`}},
		{name: "an error of ours that is none", header: modern("tools/call", "broken"), body: call("1", "broken"),
			status: 200, want: []string{`-32603`, `"internal error"`, `request_id`, `!secret`}},
		{name: "no answer at all", header: modern("tools/call", "no-reply"), body: call("1", "no-reply"), status: 200,
			want: []string{`-32603`, `"internal error"`, `request_id`}},
		{name: "a code that this revision lacks", header: modern("tools/call", "old-code"), body: call("1", "old-code"),
			status: 200, want: []string{`-32603`, `!"code":-32042`}},
		{name: "an upstream needs a capability", header: modern("tools/call", "needs-roots"), body: call("1", "needs-roots"),
			status: 400, want: []string{`-32021`, `"requiredCapabilities":{"roots":{}}`}},
		{name: "a result with two types", header: modern("tools/call", "wrong-type"), body: call("1", "wrong-type"),
			status: 200, want: []string{`"resultType":"complete"`, `!input_required`}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
	text := b.log.String()
	for _, cause := range []string{"on purpose", "gave no reply"} {
		if !strings.Contains(text, cause) {
			t.Errorf("%q is not in the log: %s", cause, text)
		}
	}
	if strings.Contains(text, "secret detail") { // it came from the handlers, which log it
		t.Errorf("a handler's error is logged here too: %s", text)
	}
}

func TestHTTPChecks(t *testing.T) {
	b := newBench(t, Config{AllowedOrigins: []string{"https://app.example"}, AllowedHosts: []string{"gate.example"}})
	ok := modern("tools/list", "")
	list := plain("1", "tools/list")
	session := http.Header{wire.HeaderSession: {b.client(v2511).Session}}
	many := ok.Clone()
	for i := range 101 {
		many[fmt.Sprintf("X-%d", i)] = []string{"1"}
	}
	for _, w := range []wantAnswer{
		{name: "a foreign Origin", header: set(ok, "Origin", "https://evil.example"), body: list, status: 403,
			want: []string{`"error"`, `!"id"`}},
		{name: "Origin null", header: set(ok, "Origin", "null"), body: list, status: 403},
		{name: "Origin of another local port", header: set(ok, "Origin", "http://localhost:3000"), body: list, status: 403},
		{name: "GET", method: "GET", header: set(session, "Origin", "https://evil.example"), status: 403},
		{name: "DELETE", method: "DELETE", header: set(session, "Origin", "https://evil.example"), status: 403},
		{name: "OPTIONS", method: "OPTIONS", header: http.Header{"Origin": {"https://evil.example"}}, status: 403},
		{name: "no Origin", header: ok, body: list, status: 200},
		{name: "an allowed Origin", header: set(ok, "Origin", "https://app.example"), body: list, status: 200},
		{name: "our own Origin", header: set(ok, "Origin", b.url), body: list, status: 200},
		{name: "a foreign Host", header: set(ok, "Host", "attacker.example"), body: list, status: 403,
			want: []string{`!"id"`, `this Host is not served here`, `http.allowed_hosts`}},
		{name: "rebinding, both foreign", header: set(set(ok, "Host", "attacker.example"), "Origin",
			"http://attacker.example"), body: list, status: 403},
		{name: "a Host that is allowed", header: set(ok, "Host", "Gate.Example:8443"), body: list, status: 200},
		{name: "IPv6", header: set(ok, "Host", "[::1]:80"), body: list, status: 200},
		{name: "a page of another site", header: set(ok, "Sec-Fetch-Site", "cross-site"), body: list, status: 403},
		{name: "a page of another site that is allowed",
			header: set(set(ok, "Sec-Fetch-Site", "cross-site"), "Origin", "https://app.example"), body: list, status: 200},
		{name: "text/plain", header: set(ok, "Content-Type", "text/plain"), body: list, status: 415,
			want: []string{`"id":1`}},
		{name: "none", header: set(ok, "Content-Type"), body: list, status: 415},
		{name: "utf-8", header: set(ok, "Content-Type", "Application/JSON; charset=UTF-8"), body: list, status: 200},
		{name: "utf-16", header: set(ok, "Content-Type", "application/json; charset=utf-16"), body: list, status: 415},
		{name: "gzip", header: set(ok, "Content-Encoding", "gzip"), body: list, status: 415},
		{name: "nothing that fits", header: set(ok, "Accept", "text/html"), body: list, status: 406,
			want: []string{`"id":1`}},
		{name: "anything", header: set(ok, "Accept", "*/*"), body: list, status: 200},
		{name: "none", header: set(ok, "Accept"), body: list, status: 200},
		{name: "q=0", header: set(ok, "Accept", "application/json;q=0, text/event-stream"), body: list, status: 200,
			want: []string{"data: {"}},
		{name: "JSON only", header: set(modern("tools/call", "progress"), "Accept", "application/json"),
			body:   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			status: 200, want: []string{`!notifications/progress`, `!data:`}},
		{name: "listen in JSON only", header: set(modern("subscriptions/listen", ""), "Accept", "application/json"),
			body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + meta +
				`}}`, status: 406, want: []string{`"id":1`}},
		{name: "GET that takes no stream", method: "GET", header: set(session, "Accept", "application/json"), status: 406},
		{name: "GET of a stateless client", method: "GET", header: with(session, wire.HeaderVersion, v2607), status: 405},
		{name: "DELETE of a stateless client", method: "DELETE",
			header: with(session, wire.HeaderVersion, v2607), status: 405},
		{name: "PUT", method: "PUT", header: session, status: 405},
		{name: "PROPFIND", method: "PROPFIND", header: session, status: 405},
		{name: "many headers", header: many, body: list, status: 400},
		{name: "GET without a session", method: "GET", header: http.Header{"Accept": {"text/event-stream"}}, status: 400},
		{name: "DELETE without a session", method: "DELETE", status: 400},
		{name: "two session ids", header: set(session, wire.HeaderSession, "a", "b"),
			body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 400},
		{name: "an alias", header: http.Header{"Mcp_Session_Id": session[wire.HeaderSession]},
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400},
		{name: "a session id that cannot be", header: set(session, wire.HeaderSession, "a b"),
			body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 404, want: []string{`"id":null`}},
		{name: "a long session id", header: set(session, wire.HeaderSession, strings.Repeat("A", 10000)),
			body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 404, want: []string{`"id":null`}},
		{name: "what stands for a client without a session",
			header: set(session, wire.HeaderSession, derivedID(mcp.Caller{},
				nil)), body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 404, want: []string{`"id":null`}},
		// Guesses are not counted: an id has 130 random bits, and is useless to any other
		// user.
		{name: "an unknown session", header: set(session, wire.HeaderSession, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
			body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 404, want: []string{`"id":null`}},
		{name: "another user's session", header: with(session, "Test-User", "eve"),
			body: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, status: 404, want: []string{`"id":null`}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

func TestAllowHeader(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct{ name, method, version, want string }{
		{"any", "PUT", "", "POST, GET, DELETE, OPTIONS"},
		{"stateless", "GET", v2607, "POST"},
		{"OPTIONS", "OPTIONS", "", "POST, GET, DELETE, OPTIONS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := http.Header{}
			if c.version != "" {
				header[wire.HeaderVersion] = []string{c.version}
			}
			if resp, _ := b.send(c.method, "", header); resp.Header.Get("Allow") != c.want {
				t.Errorf("Allow: %q, want %q", resp.Header.Get("Allow"), c.want)
			}
		})
	}
}

func TestCORS(t *testing.T) {
	b := newBench(t, Config{AllowedOrigins: []string{"https://app.example"}})
	t.Run("a page that is allowed", func(t *testing.T) {
		resp, _ := b.send("OPTIONS", "", http.Header{"Origin": {"https://app.example"},
			"Access-Control-Request-Method":  {"POST"},
			"Access-Control-Request-Headers": {"content-type, mcp-param-region, x-other, mcp-param-b:ad"}})
		h := resp.Header
		if resp.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "https://app.example" {
			t.Errorf("preflight: %d %v", resp.StatusCode, h)
		}
		allowed := h.Get("Access-Control-Allow-Headers")
		if !strings.Contains(allowed, "mcp-param-region") || strings.Contains(allowed, "x-other") ||
			strings.Contains(allowed, "b:ad") {
			t.Errorf("allowed headers: %s", allowed)
		}
		resp, _ = b.send("POST", plain("1", "tools/list"), set(modern("tools/list", ""), "Origin", "https://app.example"))
		if got := resp.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, wire.HeaderSession) {
			t.Errorf("exposed: %q", got)
		}
	})
	t.Run("a page that is not", func(t *testing.T) {
		resp, _ := b.send("OPTIONS", "", http.Header{"Origin": {"https://evil.example"},
			"Access-Control-Request-Method": {"POST"}})
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("a foreign preflight: %d %v", resp.StatusCode, resp.Header)
		}
	})
}

func TestHeaders(t *testing.T) {
	b := newBench(t, Config{})
	m := modern("tools/call", "echo")
	list := modern("tools/list", "")
	for _, w := range []wantAnswer{
		{name: "no version", header: set(m, wire.HeaderVersion), body: call("1", "echo"), status: 400,
			want: []string{`-32020`, `"id":1`}},
		{name: "no method", header: set(m, wire.HeaderMethod), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "no name", header: set(m, wire.HeaderName), body: call("1", "echo"), status: 400, want: []string{`-32020`}},
		{name: "no name for resources/read", header: modern("resources/read", ""),
			body: `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"doc://1",` + meta +
				`}}`, status: 400, want: []string{`-32020`}},
		{name: "another method", header: set(m, wire.HeaderMethod, "tools/list"), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "another name", header: set(m, wire.HeaderName, "slow"), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "the value's case", header: set(m, wire.HeaderName, "Echo"), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "a method in base64", header: set(m, wire.HeaderMethod, "=?base64?dG9vbHMvY2FsbA==?="),
			body: call("1", "echo"), status: 400, want: []string{`-32020`}},
		{name: "white space", header: set(set(m, wire.HeaderName, " echo\t"), wire.HeaderMethod, "  tools/call "),
			body: call("1", "echo"), status: 200},
		{name: "the sentinel", header: set(m, wire.HeaderName, "=?base64?ZWNobw==?="), body: call("1", "echo"), status: 200},
		{name: "bad base64", header: set(m, wire.HeaderName, "=?base64?ZWNobw=?="), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "an upper-case sentinel is literal", header: set(m, wire.HeaderName, "=?BASE64?ZWNobw==?="),
			body: call("1", "=?BASE64?ZWNobw==?="), status: 200, want: []string{"Unknown tool"}},
		{name: "a name that looks like the sentinel", header: set(m, wire.HeaderName, "=?base64?ZWNobw==?="),
			body: call("1", "=?base64?ZWNobw==?="), status: 400, want: []string{`-32020`}},
		{name: "two names", header: with(m, wire.HeaderName, "echo"), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "two methods", header: with(m, wire.HeaderMethod, "tools/call"), body: call("1", "echo"), status: 400,
			want: []string{`-32020`}},
		{name: "a stray name", header: with(list, wire.HeaderName, "x"), body: plain("1", "tools/list"), status: 200},
		{name: "an unknown Mcp-Param", header: with(m, "Mcp-Param-X", "1"), body: call("1", "echo"), status: 200},
		{name: "two Mcp-Param of one name", header: with(m, "Mcp-Param-X", "1", "Mcp-Param-X", "1"), body: call("1", "echo"),
			status: 400, want: []string{`-32020`}},
		{name: "a level that does not exist", header: list,
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/logLevel":"loud",` +
				strings.TrimPrefix(meta, `"_meta":{`) + `}}`, status: 400, want: []string{`-32602`}},
		{name: "Last-Event-ID", header: with(list, wire.HeaderLastEventID, "garbage"),
			body: plain("1", "tools/list"), status: 200},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
	t.Run("what the catalog compares", func(t *testing.T) {
		b.send("POST", call("1", "echo"), with(m, "Mcp-Param-Region", "=?base64?eA==?=", "Mcp-Param-", "none"))
		got := b.script.last("tools/call").ParamHeaders
		if len(got) != 1 || got["region"] != "=?base64?eA==?=" {
			t.Errorf("param headers %v", got)
		}
		b.send("POST", call("1", "echo"), m)
		if got := b.script.last("tools/call").ParamHeaders; got == nil || len(got) != 0 {
			t.Errorf("without any: %v, nil %t", got, got == nil)
		}
		b.client(v2511).Call(t.Context(), "tools/call", `{"name":"echo"}`)
		if got := b.script.last("tools/call").ParamHeaders; got != nil {
			t.Errorf("of a session: %v", got)
		}
	})
}

// TestLargeResult: a result that is written in parts is the same as one written at once.
func TestLargeResult(t *testing.T) {
	b := newBench(t, Config{})
	resp, text := b.send("POST", call("1", "large"), modern("tools/call", "large"))
	if resp.ContentLength != int64(len(text)) || !json.Valid([]byte(text)) || len(text) < 1<<20 {
		t.Errorf("length %d, %d bytes", resp.ContentLength, len(text))
	}
	resp, text = b.send("POST", call("1", "large"), set(modern("tools/call", "large"), "Accept", "text/event-stream"))
	data, ok := strings.CutPrefix(strings.TrimSpace(text), "data: ")
	if !ok || !json.Valid([]byte(data)) {
		t.Errorf("as a stream: %d, %.80s", resp.StatusCode, text)
	}
}

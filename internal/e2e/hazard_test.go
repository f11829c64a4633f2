package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// oldServer is the oldest revision that speaks Streamable HTTP.
const oldServer = "2025-03-26"

// dial opens a connection to the shared gateway.
func dial(t *testing.T) net.Conn {
	t.Helper()
	address, _ := shared(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestPaths requests paths other than the endpoint, written as no library writes them.
func TestPaths(t *testing.T) {
	for _, c := range []struct{ method, target string }{
		{"POST", "/mcp/../admin"},
		{"POST", "/admin/../mcp"},
		{"POST", "//mcp"},
		{"POST", "/mcp%2f.."},
		{"POST", "/%6dcp"},
		{"POST", "/mcp;x"},
		{"POST", "/MCP"},
		{"POST", "/mcp//"},
		{"POST", "/mcp%00"},
		{"BREW", "/mcp/x"},
		{"GET", "/metrics"},
		{"GET", "/healthz"},
		{"GET", "/readyz"},
		{"GET", "/debug/pprof/"},
		{"GET", "/debug/vars"},
		{"GET", "/admin/"},
		{"GET", "/.well-known/oauth-protected-resource"}, // there is no authorization here
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			conn := dial(t)
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
				c.method, c.target)
			got, err := io.ReadAll(conn)
			if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 404 ") {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
}

// TestConnections: protocols that are not served.
func TestConnections(t *testing.T) {
	t.Parallel()
	// HTTP/2 needs TLS; without it, floods of HTTP/2 cannot reach the gateway.
	t.Run("HTTP/2 without TLS", func(t *testing.T) {
		conn := dial(t)
		fmt.Fprint(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		got, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 4") && !strings.HasPrefix(string(got), "HTTP/1.1 5") {
			t.Errorf("%v: %q", err, got)
		}
	})
	t.Run("no upgrade to HTTP/2", func(t *testing.T) {
		conn := dial(t)
		const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		fmt.Fprintf(conn,
			"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"+
				"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: %d\r\n\r\n%s", len(ping), ping)
		got, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 200 ") ||
			!strings.HasSuffix(string(got), `{"jsonrpc":"2.0","id":1,"result":{}}`) {
			t.Errorf("%v: %q", err, got)
		}
	})
}

// TestHeadersStayOnTheirSide: a client sends headers that are for the gateway only, or for
// nobody. A server gets only headers that the gateway writes, and the trace of the client.
func TestHeadersStayOnTheirSide(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
		c := raw(t, inFrontOf(t, s), revision)
		c.Header = http.Header{
			"X-Forwarded-For": {"10.0.0.1"}, "X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"gopher"},
			"X-Forwarded-User": {"admin"},
			"Forwarded":        {"for=10.0.0.1"}, "X-Request-Id": {strings.Repeat("i", 10<<10)},
			"Authorization": {"Bearer secret"}, "Cookie": {"a=b"},
			"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Connection": {"Mcp-Session-Id"},
		}
		if m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || m.Error != nil {
			t.Fatalf("%s, %v", m.Text, err)
		}
		for _, r := range s.Received("") {
			for name := range r.Header {
				switch name {
				case "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "User-Agent", "Via", "Traceparent",
					"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name":
				default:
					t.Errorf("the server got %s: %q", name, r.Header[name])
				}
			}
			if r.Session != "" && r.Session == c.Session {
				t.Error("the server got the client's session id")
			}
		}
	})
}

// TestReservedMetaIsOurs: a client writes members of _meta that only the gateway may write
// for a server.
func TestReservedMetaIsOurs(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
		s.Tool("do", func(c *mcptest.Call) { c.Text("ok") })
		c := raw(t, inFrontOf(t, s), revision)
		m, _, err := c.Call(deadline(t), "tools/call",
			`{"name":"up__do","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"forged","version":"1"},`+
				`"io.modelcontextprotocol/subscriptionId":"forged","io.modelcontextprotocol/related-task":{"taskId":"forged"},`+
				`"io.modelcontextprotocol/whatever":"forged","traceparent":"forged","tracestate":"forged"}}`)
		if err != nil || m.Error != nil {
			t.Fatalf("%s, %v", m.Text, err)
		}
		call := s.Received("tools/call")[0]
		var meta map[string]json.RawMessage
		call.Param("_meta", &meta)
		for name, value := range meta {
			// A well-formed traceparent passes, as the specification requires: it says
			// where spans belong, and nothing here trusts it (TestTraceContext).
			if strings.Contains(string(value), "forged") {
				t.Errorf("%s arrived as %s", name, value)
			}
		}
		if call.Session != "" {
			return // a revision without members of ours
		}
		for name, want := range map[string]string{"protocolVersion": `"` + stateless + `"`, "clientInfo": `"gatehouse"`} {
			if got := string(meta["io.modelcontextprotocol/"+name]); !strings.Contains(got, want) {
				t.Errorf("%s arrived as %s, want %s", name, got, want)
			}
		}
	})
}

// TestAnOldServerAndANewClient asks one question across the whole range of revisions, in
// both directions.
func TestAnOldServerAndANewClient(t *testing.T) {
	t.Parallel()
	const question = `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"say something"}}]}`
	const answer = `{"role":"assistant","model":"parrot","content":{"type":"text","text":"hello"}}`
	t.Run("old server, new client", func(t *testing.T) {
		s := scripted(t, oldServer)
		s.Tools("do")
		s.Tool("do", func(c *mcptest.Call) {
			m, err := c.Ask("sampling/createMessage", question)
			if err != nil {
				return
			}
			var model string
			m.Value("model", &model)
			c.Text(model)
		})
		c := rawWith(t, inFrontOf(t, s), stateless, `{"sampling":{}}`)
		asked, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
		var state string
		var questions map[string]struct{ Method string }
		if err != nil || !asked.Value("requestState", &state) || !asked.Value("inputRequests", &questions) ||
			len(questions) != 1 {
			t.Fatalf("%s, %v", asked.Text, err)
		}
		for key, q := range questions {
			if q.Method != "sampling/createMessage" {
				t.Errorf("asked for %s", q.Method)
			}
			m, _, err := c.Call(deadline(t), "tools/call",
				fmt.Sprintf(`{"name":"up__do","requestState":%q,"inputResponses":{%q:%s}}`, state, key, answer))
			if err != nil || said(m) != "parrot" {
				t.Errorf("%s, %v", m.Text, err)
			}
		}
	})
	t.Run("new server, old client", func(t *testing.T) {
		s := scripted(t, stateless)
		s.Tools("do")
		s.Tool("do", func(c *mcptest.Call) {
			var model string
			if !c.Param("inputResponses|q|model", &model) {
				c.Result(`{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":` +
					question + `}}}`)
				return
			}
			c.Text(model)
		})
		c := rawWith(t, inFrontOf(t, s), oldServer, `{"sampling":{}}`)
		x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		q, err := x.Until("sampling/createMessage")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Answer(deadline(t), q.ID, answer); err != nil {
			t.Fatal(err)
		}
		if m, err := x.Response(); err != nil || said(m) != "parrot" {
			t.Errorf("%s, %v", m.Text, err)
		}
	})
}

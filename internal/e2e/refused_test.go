package e2e

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestRefusedAtTheDoor sends the endpoint requests that it does not serve.
func TestRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	many := strings.Builder{}
	for i := range 10_000 {
		fmt.Fprintf(&many, "X-%d: 1\r\n", i)
	}
	for _, c := range []struct{ name, line, headers, want string }{
		{"a large header", "POST /mcp", "X-A: " + strings.Repeat("a", 64<<10) + "\r\n", "431"},
		{"headers that are large together", "POST /mcp", many.String(), "431"},
		{"more headers than anybody needs", "POST /mcp", many.String()[:1500], "400"},
		{"TRACE", "TRACE /mcp", "", "405"},
		{"CONNECT", "CONNECT /mcp", "", "405"},
		{"a tunnel", "CONNECT example.com:443", "", "404"},
		{"a method in another case", "post /mcp", "", "405"},
		{"another server's address in the request line", "POST http://evil.example/mcp", "", "403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t)
			go fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n", c.line,
				c.headers[:strings.LastIndex(c.headers, "\n")+1])
			got, _ := io.ReadAll(conn) // bytes that we send after the close may reset it
			if !strings.HasPrefix(string(got), "HTTP/1.1 "+c.want+" ") {
				t.Errorf("got %.300s, want %s", got, c.want)
			}
		})
	}
}

// TestMethodsOfOthers: a server knows these methods, but the gateway does not, or the server does not
// declare what they need. Policy cannot decide about them, so none passes.
func TestMethodsOfOthers(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"skills/list", "acme/do", "tools/steal"} {
		t.Run(method, func(t *testing.T) {
			eachPair(t, func(t *testing.T, revision string, s *mcptest.Server) {
				s.OffersOnly(`{"tools":{"listChanged":true}}`) // resources may be skills
				s.On(method, func(c *mcptest.Call) { c.Result(`{}`) })
				m, _, err := raw(t, inFrontOf(t, s), revision).Call(deadline(t), method, `{"name":"up__do"}`)
				if err != nil || m.Error == nil || m.Error.Code != -32601 {
					t.Errorf("%s, %v", m.Text, err)
				}
				if n := len(s.Received(method)); n > 0 {
					t.Error("it reached the server")
				}
			})
		})
	}
}

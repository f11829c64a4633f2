package front

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestRefusedRequestsAreReported: whoever keeps records is told of each request that became no
// call: by whom, as far as that was asked, what for, and why it was refused; and of no other.
func TestRefusedRequestsAreReported(t *testing.T) {
	b := newBench(t, Config{MaxRequestBytes: 1 << 16})
	var mu sync.Mutex
	var got []string
	b.front.deps.Refused = func(c mcp.Caller, method string, status int, why failure.Name) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%q %q %d %s", c.Subject, method, status, why))
	}
	body, head := scenario(v2607, "")
	send := func(verb, body string, change ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, b.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = head.Clone()
		req.Header.Set("Test-User", "alice")
		for i := 0; i < len(change); i += 2 {
			req.Header.Set(change[i], change[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body) // the answer is another test's
		resp.Body.Close()
	}
	for _, tt := range []struct {
		send func()
		want string // "" for a request that is served
	}{
		{func() { send("POST", body) }, ""},
		{func() { send("PUT", "") }, `"" "" 405 GH-HTTP-METHOD`},
		{func() { send("POST", body, "Origin", "https://evil.example") }, `"" "" 403 GH-HTTP-ORIGIN`},
		{func() { send("POST", "{") }, `"alice" "" 400 GH-PARSE`},
		{func() { send("POST", body, "Accept", "text/html") }, `"alice" "" 406 GH-HTTP-ACCEPT`},
		{func() { send("POST", body, "Content-Type", "text/plain") }, `"alice" "" 415 GH-HTTP-MEDIA`},
		{func() { send("POST", strings.Repeat(" ", 1<<17)) }, `"alice" "" 413 GH-REQUEST-TOO-LARGE`},
		{func() { send("POST", body, "Mcp-Method", "tools/list") }, `"alice" "tools/call" 400 GH-HEADER-MISMATCH`},
		{func() { send("GET", "", "Mcp-Session-Id", "none", "MCP-Protocol-Version", v2511) },
			`"alice" "" 404 GH-SESSION-NOT-FOUND`},
		{func() { send("DELETE", "", "Mcp-Session-Id", "none", "MCP-Protocol-Version", v2511) },
			`"alice" "" 404 GH-SESSION-NOT-FOUND`},
		{func() {
			send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", "none",
				"MCP-Protocol-Version", v2511)
		}, `"alice" "tools/list" 404 GH-SESSION-NOT-FOUND`},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		tt.send()
		mu.Lock()
		var want []string
		if tt.want != "" {
			want = []string{tt.want}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		mu.Unlock()
	}
}

package front

import (
	"net/http"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// If sessions are switched off, clients that need one learn which revision is served.
func TestNoSessions(t *testing.T) {
	b := newBench(t, Config{Clients: ClientsStateless})
	old := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	refused := []string{`-32022`, `"supported":["2026-07-28"]`, `serves no clients with sessions`}
	for _, w := range []wantAnswer{
		{name: "initialize", header: old,
			body:   `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			status: 400, want: append(refused, `"requested":"2025-06-18"`, `"id":"a"`)},
		{name: "a request of a session", header: with(old, wire.HeaderSession, "some", wire.HeaderVersion, "2025-11-25"),
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, status: 400, want: append(refused,
				`"requested":"2025-11-25"`, `"id":1`)},
		{name: "a request without anything", header: old, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			status: 400, want: refused},
		{name: "a notification", header: old, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			status: 400, want: refused},
		{name: "a response", header: old, body: `{"jsonrpc":"2.0","id":1,"result":{}}`, status: 400,
			want: append(refused, `"id":null`)},
		{name: "a batch", header: old, body: `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 400, want: refused},
		{name: "GET", method: http.MethodGet, header: old, status: 405},
		{name: "DELETE", method: http.MethodDelete, header: with(old, wire.HeaderSession, "some"), status: 405},
		{name: "a stateless call", header: modern("tools/call", "empty"), body: call("1", "empty"), status: 200,
			want: []string{`"resultType"`}},
		{name: "server/discover", header: modern("server/discover", ""), body: plain("1", "server/discover"), status: 200,
			want: []string{`"supportedVersions":["2026-07-28"]`}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

package front

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestRateLimited: a status if there can be one, and the error in any case.
func TestRateLimited(t *testing.T) {
	b := newBench(t, Config{})
	limited := func(name, arguments, meta string) string {
		return `{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments +
			`,` + meta + `}}`
	}
	const old = `"_meta":{"progressToken":1}`
	token := strings.Replace(meta, "{", `{"progressToken":1,`, 1)
	session := http.Header{wire.HeaderSession: {b.client(v2511).Session}}
	batches := http.Header{wire.HeaderSession: {b.client(v2503).Session}}
	stateless := modern("tools/call", "limited")
	failed := []string{`"code":42901`, `"message":"too many calls"`, `"id":"7"`, `"retryable":true`, `"request_id":"`}
	data := func(after string) string { return `{"retryable":true,"executed":"no","retry_after":` + after + `}` }
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		status int
		after  string // Retry-After
		want   []string
	}{
		{"stateless", stateless, limited("limited", data("17"), meta), 429, "17", failed},
		{"stateful", session, limited("limited", data("17"), old), 429, "17", failed},
		{"at least a second", session, limited("limited", data("0"), old), 429, "1", failed},
		{"not for ever", session, limited("limited", data("999999999"), old), 429, "86400", failed},
		{"a time that is none", session, limited("limited", data(`"soon"`), old), 429, "1", failed},
		{"no time", session, limited("limited", `{"retryable":true}`, old), 429, "1", failed},
		{"to a client that takes no stream", with(session, "Accept", "application/json"), limited("limited", data("17"), old),
			429, "17", failed},
		{"to one that takes nothing else", with(session, "Accept", "text/event-stream"), limited("limited", data("17"), old),
			429, "17", failed},
		{"on a stream, stateless", modern("tools/call", "limited-late"), limited("limited-late", data("17"), token), 200, "",
			append(failed, "data: ")},
		{"on a stream, stateful", session, limited("limited-late", data("17"), old), 200, "", append(failed, "data: ")},
		{"in a batch", batches, "[" + limited("limited", data("17"), old) + `,{"jsonrpc":"2.0","id":8,"method":"ping"}]`, 200,
			"", append(failed, `"id":8,"result":{}`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, text := b.send("POST", tt.body, tt.header)
			if resp.StatusCode != tt.status || resp.Header.Get("Retry-After") != tt.after {
				t.Errorf("status %d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), text)
			}
			for _, part := range tt.want {
				if !strings.Contains(text, part) {
					t.Errorf("the body lacks %q: %s", part, text)
				}
			}
		})
	}
}

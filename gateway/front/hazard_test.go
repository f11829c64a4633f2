package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestNotificationsThatAreNotAccepted: they get an error instead of 202 (2025-11-25
// basic/transports#sending-messages-to-the-server).
func TestNotificationsThatAreNotAccepted(t *testing.T) {
	b := newBench(t, Config{})
	session := http.Header{wire.HeaderSession: {b.client(v2511).Session}}
	const note = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	for _, w := range []wantAnswer{
		{name: "none of our sessions", header: set(session, wire.HeaderSession, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), body: note,
			status: 404, want: []string{`"error"`}},
		{name: "params are an array", header: session,
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`, status: 400, want: []string{`-32602`}},
		{name: "a member twice", header: session,
			body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{},"_meta":{}}}`, status: 400, want: []string{`-32602`}},
		{name: "an unknown version", header: with(session, wire.HeaderVersion, "1999-01-01"), body: note, status: 400,
			want: []string{`"error"`}},
		{name: "one that says nothing to us", header: session,
			body: `{"jsonrpc":"2.0","method":"notifications/whatever"}`, status: 202},
		{name: "one of nothing that runs", header: session, body: note, status: 202},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

// TestLargeArguments makes a call with as many members as its size allows. Its cost must not
// grow with their number: they are scanned, not collected.
func TestLargeArguments(t *testing.T) {
	b := newBench(t, Config{})
	var members strings.Builder
	for i := 0; members.Len() < 39<<20/10; i++ { // 3.9 MiB
		fmt.Fprintf(&members, `"%d":%d,`, i, i%10)
	}
	arguments := "{" + members.String() + `"last":1.0}`
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"empty","arguments":` + arguments +
		`,` + meta + `}}`
	t.Run("unchanged", func(t *testing.T) {
		ctx := mcp.WithCaller(t.Context(), mcp.NewCaller(mcp.Caller{}))
		status := 0
		allocs := testing.AllocsPerRun(2, func() {
			r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/", strings.NewReader(body))
			r.Header = modern("tools/call", "empty")
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			b.front.ServeHTTP(w, r)
			status = w.Code
		})
		if status != http.StatusOK || allocs > 500 {
			t.Errorf("status %d, %.0f allocations", status, allocs)
		}
		if got, _ := b.script.last("tools/call").Params.Member("arguments"); string(got) != arguments {
			t.Errorf("%d bytes of arguments arrived, want %d, unchanged", len(got), len(arguments))
		}
	})
}

// TestResultsOfOlderServers: results without a resultType get one, and the rest stays as it
// is, byte for byte.
func TestResultsOfOlderServers(t *testing.T) {
	b := newBench(t, Config{})
	const odd = `{ "b" : [ 1.0 ,2e0],"a":"\u0041\/" , "n":12345678901234567890 }`
	const want = `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"gate","title":"Gate","version":"1"}},` +
		`"resultType":"complete","content":[],"structuredContent":{"got":` + odd + `}}}`
	t.Run("with what is missing", func(t *testing.T) {
		_, got := b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":`+odd+`,`+
			meta+`}}`, modern("tools/call", "echo"))
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("nothing is asked by a result that is complete", func(t *testing.T) {
		_, got := b.send("POST", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"doc://asks",`+meta+`}}`,
			modern("resources/read", "doc://asks"))
		if strings.Contains(got, "inputRequests") || strings.Contains(got, "requestState") ||
			!strings.Contains(got, `"contents":[]`) || !json.Valid([]byte(got)) {
			t.Errorf("got %s", got)
		}
	})
}

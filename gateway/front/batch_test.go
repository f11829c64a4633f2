package front

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestBatches: batches of the revisions that allow them, over Streamable HTTP.
func TestBatches(t *testing.T) {
	b := newBench(t, Config{})
	session := http.Header{wire.HeaderSession: {b.client(v2503).Session}}
	later := http.Header{wire.HeaderSession: {b.client(v2506).Session}}
	ping := `{"jsonrpc":"2.0","id":"p","method":"ping"}`
	note := `{"jsonrpc":"2.0","method":"notifications/x"}`
	for _, w := range []wantAnswer{
		{name: "a response for each request", header: session,
			body:   `[` + ping + `,` + note + `,{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}]`,
			status: 200, want: []string{`"id":"p","result":{}`, `"id":7,"result":{`}},
		{name: "nothing but notifications", header: session, body: `[` + note + `,` + note + `]`, status: 202},
		{name: "responses", header: session,
			body: `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"no"}}]`, status: 202},
		{name: "initialize among others", header: session,
			body: `[` + ping +
				`,{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]`,
			status: 200, want: []string{`"id":"p","result":{}`, `"id":"i","error":{"code":-32600`}},
		{name: "of a later revision", header: later, body: `[` + ping + `]`, status: 400, want: []string{`-32600`}},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, b) })
	}
}

// TestBatchesLate: a batch without an answer is accepted also after the server's own deadline.
func TestBatchesLate(t *testing.T) {
	b := newBench(t, Config{})
	late := httptest.NewUnstartedServer(b)
	late.Config.WriteTimeout = time.Nanosecond
	late.Start()
	defer late.Close()
	note := `[{"jsonrpc":"2.0","method":"notifications/x"}]`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, late.URL, strings.NewReader(note))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{wire.HeaderSession: {b.client(v2503).Session}, "Content-Type": {"application/json"}}
	resp, err := late.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusAccepted {
		t.Error(resp.Status)
	}
}

// TestMemberWhoseSessionMoves: if another replica takes over the session after a batch was
// accepted, a member that has not begun is refused and did not run. Its client can send it again.
func TestMemberWhoseSessionMoves(t *testing.T) {
	all := replicas(t, 2)
	a, b := all[0], all[1]
	c := a.client(v2503)
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(soon(t), http.MethodPost, "/", http.NoBody)
	r.Header.Set(wire.HeaderSession, c.Session)
	p := &posted{Request: request.Request{R: r, Caller: mcp.NewCaller(mcp.Caller{}), Batch: []wire.Message{m},
		Errs: []error{nil}}}
	var w exchange.Collected
	b.front.answerMember(p, 0, &w)
	if got := string(w.Body); !strings.Contains(got, `"id":7,"error":{"code":50303`) ||
		!strings.Contains(got, `"executed":"no"`) {
		t.Errorf("got %s", got)
	}
	if a.calls()+b.calls() > 0 {
		t.Error("it has run")
	}
}

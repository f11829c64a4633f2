package request

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// status returns the status of a refusal, 0 for none.
func status(ref *refuse.Refusal) int {
	if ref == nil {
		return 0
	}
	return ref.Status
}

func TestChecks(t *testing.T) {
	c := NewChecks("gatehouse-1", []string{"[2001:DB8::1]", "gate.example"}, []string{"https://App.example"})
	for _, tt := range []struct {
		name, method, host string
		header             http.Header
		want               int
	}{
		{"plain", "POST", "localhost:8080", nil, 0},
		{"a method that is not served", "PUT", "localhost", nil, 405},
		{"OPTIONS", "OPTIONS", "localhost", nil, 0},
		{"an address in brackets", "POST", "[2001:db8::1]:80", nil, 0},
		{"a name in another case", "POST", "Gate.Example", nil, 0},
		{"a foreign host", "POST", "evil.example", nil, 403},
		{"a port that is none", "POST", "localhost:http", nil, 403},
		{"an allowed page", "POST", "localhost", http.Header{"Origin": {"https://app.example"}}, 0},
		{"a foreign page", "POST", "localhost", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"the endpoint's own page", "POST", "gate.example", http.Header{"Origin": {"https://gate.example"}}, 0},
		{"two origins", "POST", "localhost", http.Header{"Origin": {"https://app.example", "null"}}, 403},
		{"another site without an origin", "POST", "localhost", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"the gateway itself", "POST", "localhost", http.Header{"Via": {"1.1 gatehouse-1"}}, 508},
		{"too many fields", "POST", "localhost", http.Header{"X": make([]string, MaxHeaderFields+1)}, 400},
	} {
		r := httptest.NewRequest(tt.method, "http://localhost/", nil)
		r.Host = tt.host
		for name, values := range tt.header {
			r.Header[name] = values
		}
		if got := status(c.Check(httptest.NewRecorder(), r, Verbs{http.MethodPost, http.MethodGet})); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestReadBody(t *testing.T) {
	l := &Limits{Bytes: mcp.CountedBytes + 100, Time: time.Minute, Memory: mcp.NewMemory(2 * mcp.CountedBytes)}
	ping := `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"`
	for _, tt := range []struct {
		name, body string
		header     http.Header
		want       int
		id         string
	}{
		{"small", ping + `"}}`, nil, 0, ""},
		{"counted", ping + strings.Repeat("x", mcp.CountedBytes) + `"}}`, nil, 0, ""},
		{"too large", ping + strings.Repeat("x", mcp.CountedBytes+100) + `"}}`, nil, 413, "7"},
		{"compressed", ping + `"}}`, http.Header{"Content-Encoding": {"gzip"}}, 415, "7"},
		{"of another type", ping + `"}}`, http.Header{"Content-Type": {"application/jsonl"}}, 415, "7"},
		{"in another charset", ping + `"}}`, http.Header{"Content-Type": {"application/json; charset=utf-16"}}, 415, "7"},
		{"no answer is accepted", ping + `"}}`, http.Header{"Accept": {"image/png, text/*;q=0"}}, 406, "7"},
		{"a stream is accepted", ping + `"}}`, http.Header{"Accept": {"text/*;q=0.1"}}, 0, ""},
	} {
		w := httptest.NewRecorder()
		r := &Request{W: w, RC: http.NewResponseController(w),
			R: httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))}
		r.R.Header.Set("Content-Type", "application/json; charset=UTF-8")
		for name, values := range tt.header {
			r.R.Header[name] = values
		}
		ref := r.ReadBody(l, true)
		if status(ref) != tt.want || string(r.Message.ID) != tt.id || ref == nil && string(r.Body) != tt.body {
			t.Errorf("%s: status %d, id %s, want %d and %s", tt.name, status(ref), r.Message.ID, tt.want, tt.id)
		}
		r.Room.Free()
	}
}

func TestBatch(t *testing.T) {
	ping, answer := `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	for _, tt := range []struct {
		name, body, revision string
		want                 int
	}{
		{"requests", `[` + ping + `,{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}]`, "2025-03-26", 0},
		{"answers", `[` + answer + `,` + answer + `]`, "2025-03-26", 0},
		{"one id twice", `[` + ping + `,` + ping + `]`, "2025-03-26", 400},
		{"mixed", `[` + ping + `,` + answer + `]`, "2025-03-26", 400},
		{"in a revision without batches", `[` + ping + `]`, "2025-06-18", 400},
	} {
		r := &Request{Body: []byte(tt.body)}
		if ref := r.Scan(); ref != nil {
			t.Fatal(ref)
		}
		if got := status(r.CheckBatch(wire.Lookup(tt.revision))); got != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, got, tt.want)
		}
		for i := range r.Batch {
			one, ref := r.Member(i, httptest.NewRecorder())
			if (ref != nil) != (one.Message.Method == mcp.MethodInitialize) || one.Batch != nil || one.Body != nil {
				t.Errorf("%s: member %d: %v", tt.name, i, ref)
			}
		}
	}
}

package front

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest/answers"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// nobody is a ResponseWriter that costs nothing.
type nobody struct{ header http.Header }

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (n *nobody) WriteHeader(int)             {}

func (n *nobody) SetReadDeadline(time.Time) error  { return nil }
func (n *nobody) SetWriteDeadline(time.Time) error { return nil }

func benchFront(b testing.TB, revision string, handler mcp.Handler) (*Front, string) {
	store, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	key, err := seal.NewRandom("bench")
	if err != nil {
		b.Fatal(err)
	}
	front, err := newFront(Config{}, Deps{Deps: exchange.Deps{Handler: handler, Store: store, Seal: key,
		Server: exchange.ServerInfo{Name: "g", Version: "1"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		front.Close(context.Background())
		store.Close()
	})
	record, err := store.Create(context.Background(),
		session.Record{User: mcp.Caller{}.User(), Revision: revision, Initialized: true})
	if err != nil {
		b.Fatal(err)
	}
	return front, record.ID
}

const smallResult = `{"content":[{"type":"text","text":"The quick brown fox jumps over the lazy dog, and then it does so again."}]}`

func trivial(context.Context, *mcp.Call) (*mcp.Reply, error) {
	return &mcp.Reply{Result: mcp.Raw(smallResult)}, nil
}

func scenario(revision, sid string) (body string, header http.Header) {
	header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		wire.HeaderVersion: {revision}}
	if revision == v2607 {
		header[wire.HeaderMethod], header[wire.HeaderName] = []string{"tools/call"}, []string{"crm__echo"}
		return `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"crm__echo","arguments":{"text":"hello, world"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, header
	}
	header[wire.HeaderSession] = []string{sid}
	return `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"crm__echo","arguments":{"text":"hello, world"}}}`, header
}

// served returns a function that makes one call of a front, with a result that is scanned as that of a
// server.
func served(b testing.TB, revision, arguments string, result mcp.Raw) (call func()) {
	text := wire.AppendResult(nil, mcp.Raw("1"), result.With("resultType", mcp.Raw(`"complete"`)))
	front, sid := benchFront(b, revision, mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) {
		m, err := wire.ScanUpstream(text)
		return &mcp.Reply{Result: m.Result, Outline: m.Outline}, err
	}))
	body, header := scenario(revision, sid)
	body = strings.Replace(body, `"hello, world"`, arguments, 1)
	ctx := mcp.WithCaller(b.Context(), mcp.NewCaller(mcp.Caller{}))
	r := httptest.NewRequest("POST", "http://localhost:8080/", nil).WithContext(ctx)
	r.Header, r.ContentLength = header, int64(len(body))
	w := &nobody{header: make(http.Header)}
	input := strings.NewReader(body)
	r.Body = io.NopCloser(input)
	return func() {
		input.Reset(body)
		front.ServeHTTP(w, r)
	}
}

// TestServeAllocates: a call costs no more allocations than it did, a tenth more at most.
func TestServeAllocates(t *testing.T) {
	document, large := answers.Document(64<<10), mcp.Raw(nil)
	for _, shape := range answers.Shapes(64 << 10) {
		if shape.Name == "json" {
			large = shape.Result
		}
	}
	for _, tt := range []struct {
		name, arguments string
		result          mcp.Raw
		most            map[string]float64
	}{
		{"a small call", `"hello, world"`, mcp.Raw(smallResult), map[string]float64{v2511: 20, v2607: 18}},
		{"a large result", `"hello, world"`, large, map[string]float64{v2511: 26, v2607: 24}},
		{"large arguments", string(mcp.String(document)), mcp.Raw(smallResult), map[string]float64{v2511: 28, v2607: 27}},
	} {
		for revision, most := range tt.most {
			if n := testing.AllocsPerRun(100, served(t, revision, tt.arguments, tt.result)); n > most {
				t.Errorf("%s, %s: %v allocations, at most %v are wanted", tt.name, revision, n, most)
			}
		}
	}
}

// BenchmarkServe measures the cost of the front itself: of a small call, of calls with results of all
// shapes, which are scanned as those of a server, and of a call with large arguments.
func BenchmarkServe(b *testing.B) {
	for _, revision := range []string{"2025-03-26", v2511, v2607} {
		serve := func(name, arguments string, result mcp.Raw) {
			b.Run(revision+"/"+name, func(b *testing.B) {
				call := served(b, revision, arguments, result)
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
			})
		}
		serve("small", `"hello, world"`, mcp.Raw(smallResult))
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			for _, shape := range answers.Shapes(size) {
				serve(fmt.Sprintf("%s/%d", shape.Name, size), `"hello, world"`, shape.Result)
			}
		}
		serve("arguments", string(mcp.String(answers.Document(64<<10))), mcp.Raw(smallResult))
	}
}

// BenchmarkHTTP measures a call over a connection. "bare" is a handler that only reads and
// writes as many bytes.
func BenchmarkHTTP(b *testing.B) {
	for _, revision := range []string{"bare", v2511, v2607} {
		b.Run(revision, func(b *testing.B) {
			front, sid := benchFront(b, revision, mcp.HandlerFunc(trivial))
			caller := mcp.NewCaller(mcp.Caller{})
			var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				front.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), caller)))
			})
			body, header := scenario(revision, sid)
			if revision == "bare" {
				body, header = scenario(v2607, sid)
				answer := []byte(`{"jsonrpc":"2.0","id":17,"result":` + smallResult + `}`)
				handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err != nil {
						b.Error(err)
					}
					w.Header().Set("Content-Type", "application/json")
					w.Write(answer)
				})
			}
			server := httptest.NewServer(handler)
			defer server.Close()
			defer http.DefaultClient.CloseIdleConnections()
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.NewRequest("POST", server.URL, bytes.NewReader([]byte(body)))
				if err != nil {
					b.Fatal(err)
				}
				r.Header = header
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
					b.Fatal(resp.StatusCode, err)
				}
				resp.Body.Close()
			}
		})
	}
}

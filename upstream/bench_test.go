package upstream_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest/answers"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// BenchmarkCall compares a call through an Upstream with the bare round trip that it
// contains; the difference is the cost of this package.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		payload := []byte(mcp.Object("content", answers.Text(mcp.String(answers.Document(size)))))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			id, _ := mcp.Raw(body).Member("id")
			result := payload
			if bytes.Contains(body, []byte(`"initialize"`)) {
				result = []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(id)+len(result)+len(`{"jsonrpc":"2.0","id":,"result":}`)))
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`)
			_, _ = w.Write(result)
			_, _ = io.WriteString(w, `}`)
		}))
		b.Cleanup(server.Close)
		name := strconv.Itoa(size) + " bytes/"
		transport := upstream.NewTransport(nil, upstream.Config{URL: server.URL})
		b.Cleanup(transport.CloseIdleConnections)

		b.Run(name+"bare", func(b *testing.B) {
			b.ReportAllocs()
			body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		for _, revision := range []string{"2025-11-25", "2026-07-28"} {
			b.Run(name+revision, func(b *testing.B) {
				u, err := upstream.New(upstream.Config{Name: "bench", URL: server.URL, Revision: revision},
					upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport})
				if err != nil {
					b.Fatal(err)
				}
				defer u.Close(b.Context())
				c := fake.Tool("echo")
				c.Params = mcp.Raw(`{"name":"x__echo","arguments":{"text":"hello"}}`)
				b.ReportAllocs()
				for b.Loop() {
					reply, err := u.Handle(b.Context(), c)
					if err != nil {
						b.Fatal(err)
					}
					if reply.Release != nil {
						reply.Release()
					}
				}
			})
		}
	}
}

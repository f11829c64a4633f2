package gateway

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// alone is an endpoint with no checks in front of authentication.
func alone(endpoint http.Handler) func(authenticate func(http.Handler) http.Handler) http.Handler {
	return func(authenticate func(http.Handler) http.Handler) http.Handler { return authenticate(endpoint) }
}

func TestRoutes(t *testing.T) {
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := mcp.CallerFrom(r.Context()); !ok {
			t.Error("the front was called without a caller")
		}
		if at := r.URL.Path; at != "/mcp" && at != "/sse" && at != "/sse/messages" && at != "/slashed/" {
			t.Errorf("the front was called at %s", at)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	server := httptest.NewServer(routes(anybody(t), slog.New(slog.DiscardHandler),
		place{path: "/mcp", behind: alone(front)}, place{path: "/sse", behind: alone(front)},
		place{path: "/slashed/", behind: alone(front)}, place{path: "/sse/messages", behind: alone(front)}))
	defer server.Close()
	const found, missing = http.StatusTeapot, http.StatusNotFound
	tests := []struct {
		name, method, target string
		want                 int
	}{
		{"the endpoint", "POST", "/mcp", found},
		{"with a query", "GET", "/mcp?x=1", found},
		{"another method", "PUT", "/mcp", found},
		{"TRACE", "TRACE", "/mcp", found},
		{"a method nobody knows", "BREW", "/mcp", found},
		{"a method nobody knows elsewhere", "BREW", "/", missing},
		{"another place", "GET", "/sse", found},
		{"with a query", "POST", "/sse/messages?c=x", found},
		{"another method there", "PUT", "/sse/messages", found},
		{"a method nobody knows there", "BREW", "/sse", found},
		{"with a slash at the end", "GET", "/sse/", found},
		{"below them", "POST", "/sse/messages/x", missing},
		{"dots", "POST", "/sse/../sse", missing},
		{"the root", "GET", "/", missing},
		{"slash at the end", "POST", "/mcp/", found},
		{"slash at the end, with a query", "GET", "/mcp/?x=1", found},
		{"slashes at the end", "POST", "/mcp//", missing},
		{"no slash at the end", "POST", "/slashed", found},
		{"escaped, with a slash at the end", "POST", "/%6dcp/", missing},
		{"slash at the start", "POST", "//mcp", missing},
		{"below", "POST", "/mcp/x", missing},
		{"dots behind", "POST", "/mcp/../mcp", missing},
		{"dots in front", "POST", "/x/../mcp", missing},
		{"dot", "POST", "/./mcp", missing},
		{"another case", "POST", "/MCP", missing},
		{"escaped", "POST", "/%6dcp", missing},
		{"escaped slash", "POST", "/mcp%2f", missing},
		{"parameter", "POST", "/mcp;x", missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.URL.Opaque = "//" + req.URL.Host + tt.target // as it is, not cleaned
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.want {
				t.Errorf("status %d, %v; want %d", res.StatusCode, err, tt.want)
			}
			if tt.want == missing && !strings.Contains(string(body), "the MCP endpoint is /mcp") {
				t.Errorf("the 404 says %q, and not where the endpoint is", body)
			}
		})
	}
}

func TestPanic(t *testing.T) {
	tests := []struct {
		name     string
		before   string // written before the panic
		complete bool   // the client gets a whole answer
		want     string
	}{
		{"before the answer", "", true,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error","data":{"error_code":"GH-INTERNAL"}}}`},
		{"in mid-answer", "half", false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.before != "" {
					io.WriteString(w, tt.before)
					http.NewResponseController(w).Flush()
				}
				panic("secret detail")
			})
			server := httptest.NewServer(routes(anybody(t), slog.New(slog.NewTextHandler(&log, nil)),
				place{path: "/mcp", behind: alone(front)}))
			res, err := http.Post(server.URL+"/mcp", "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			server.Close() // the log is complete by then
			if (err == nil) != tt.complete {
				t.Errorf("reading the body: %v; complete should be %t", err, tt.complete)
			}
			if tt.complete && (res.StatusCode != 500 || string(body) != tt.want) {
				t.Errorf("got %d %s, want 500 %s", res.StatusCode, body, tt.want)
			}
			if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "routes_test.go") {
				t.Errorf("the log has no cause or no stack: %s", log.String())
			}
		})
	}
}

// anybody is an Auth of mode none.
func anybody(t *testing.T) *auth.Auth {
	t.Helper()
	who, err := auth.New(auth.Config{}, auth.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	return who
}

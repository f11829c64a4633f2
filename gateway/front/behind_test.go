package front

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// TestBehind: a browser's requests are answered in front of authentication if they have to be,
// and its pages can read the answers of authentication.
func TestBehind(t *testing.T) {
	b := newBench(t, Config{AllowedOrigins: []string{"https://app.example"}})
	asked := 0
	endpoint := b.front.Behind(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if r.Header.Get("Authorization") == "" {
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r.WithContext(mcp.WithCaller(r.Context(), mcp.NewCaller(mcp.Caller{}))))
		})
	})
	const app, evil = "https://app.example", "https://evil.example"
	preflight := http.Header{"Access-Control-Request-Method": {"POST"},
		"Access-Control-Request-Headers": {"authorization, mcp-param-region"}}
	for _, tt := range []struct {
		name, method, origin, host string
		header                     http.Header
		status, asked              int
	}{
		{"a preflight needs no token", "OPTIONS", app, "", preflight, 204, 0},
		{"a foreign page's preflight", "OPTIONS", evil, "", preflight, 403, 0},
		{"without a token", "POST", app, "", nil, 401, 1},
		{"with one", "POST", app, "", http.Header{"Authorization": {"Bearer x"}}, 200, 1},
		{"a foreign page learns nothing of authentication", "POST", evil, "", nil, 403, 0},
		{"a foreign Host does not either", "POST", "", "evil.example", nil, 403, 0},
		{"nor does a method that is not served", "PUT", "", "", nil, 405, 0},
		{"no page at all", "POST", "", "", nil, 401, 1},
		{"GET", "GET", app, "", nil, 401, 1},
		{"DELETE", "DELETE", app, "", nil, 401, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked = 0
			body := ""
			if tt.method == "POST" {
				body = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
			}
			r := httptest.NewRequestWithContext(t.Context(), tt.method, "http://localhost/", strings.NewReader(body))
			for name, values := range tt.header {
				r.Header[name] = values
			}
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			if tt.host != "" {
				r.Host = tt.host
			}
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			endpoint.ServeHTTP(w, r)
			h := w.Header()
			if w.Code != tt.status || asked != tt.asked {
				t.Errorf("status %d, authentication asked %d times: %s", w.Code, asked, w.Body)
			}
			if tt.origin != app {
				if got := h.Get("Access-Control-Allow-Origin"); got != "" {
					t.Errorf("%q may read it", got)
				}
				return
			}
			if h.Get("Access-Control-Allow-Origin") != app || h.Get("Vary") != "Origin" {
				t.Errorf("headers %v", h)
			}
			for _, name := range []string{"WWW-Authenticate", "Retry-After", wire.HeaderSession} {
				if !listed(h, "Access-Control-Expose-Headers", name) {
					t.Errorf("%s cannot be read", name)
				}
			}
			if tt.method == "OPTIONS" {
				for _, name := range []string{"Authorization", "Content-Type", "mcp-param-region", wire.HeaderSession,
					wire.HeaderVersion, wire.HeaderLastEventID} {
					if !listed(h, "Access-Control-Allow-Headers", name) {
						t.Errorf("%s cannot be sent", name)
					}
				}
			}
		})
	}
}

// listed reports whether a list in a header contains a name.
func listed(h http.Header, header, name string) bool {
	for item := range strings.SplitSeq(h.Get(header), ",") {
		if strings.EqualFold(strings.TrimSpace(item), name) {
			return true
		}
	}
	return false
}

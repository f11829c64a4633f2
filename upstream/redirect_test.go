package upstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestRedirects: a server sends requests on to its other paths, with method and body. Where else
// it would send them is refused, and shown to the operator without what may be secret.
func TestRedirects(t *testing.T) {
	for name, tt := range map[string]struct {
		status   int
		location string
		want     string // in the cause; "" for a result
	}{
		"another path":       {307, "/mcp/", ""},
		"for good":           {308, "mcp/?a=b", ""},
		"the same host":      {307, "$HOST/mcp/", ""},
		"its method is lost": {302, "/mcp/", "HTTP status 302, a redirect to $HOST/mcp/"},
		"another port": {307, "http://127.0.0.1:1/mcp/?token=secret",
			"HTTP status 307, a redirect to http://127.0.0.1:1/mcp/"},
		"another scheme":          {307, "https://u:secret@127.0.0.1/", "HTTP status 307, a redirect to https://127.0.0.1/"},
		"another user":            {307, "http://secret@$NAME/mcp/", "HTTP status 307, a redirect to http://$NAME/mcp/"},
		"in a circle":             {307, "/mcp", "HTTP status 307, a redirect to $HOST/mcp"},
		"to nowhere":              {307, "", "HTTP status 307"},
		"to what cannot be read ": {307, "http://[", "HTTP status 307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, true, func(f *fake, w http.ResponseWriter, r *http.Request, _ rpc) bool {
				if r.URL.Path != "/mcp" {
					return false
				}
				if to := strings.NewReplacer("$HOST", f.URL, "$NAME",
					strings.TrimPrefix(f.URL, "http://")).Replace(tt.location); to != "" {
					w.Header().Set("Location", to)
				}
				w.WriteHeader(tt.status)
				return true
			})
			f.path = "/mcp"
			u := f.start(t, upstream.Config{})
			want := strings.NewReplacer("$HOST", f.URL, "$NAME", strings.TrimPrefix(f.URL, "http://")).Replace(tt.want)
			if tt.want == "" {
				wantOK(t, u, tool("a"))
				return
			}
			_, err := do(t, u, tool("a"))
			e := wantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
			if !strings.Contains(e.Cause, want) || strings.Contains(e.Cause, "secret") {
				t.Errorf("cause %s, want %s", e.Cause, want)
			}
			if n := len(f.requests(mcp.MethodDiscover)); n > 4 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestOwnErrorWith403: a JSON-RPC error with the id of the request is the server's answer,
// whatever the status says, unless it asks for other credentials.
func TestOwnErrorWith403(t *testing.T) {
	for name, tt := range map[string]struct {
		status        int
		id, challenge string
		own           bool
		code          int
		overSSE       bool
	}{
		"its own":           {status: 403, own: true, code: -32003},
		"its own, over SSE": {status: 403, own: true, code: -32003, overSSE: true},
		"a challenge":       {status: 403, challenge: `Bearer error="insufficient_scope"`, code: mcp.CodeUpstreamAuthFailed},
		"without the id":    {status: 403, id: "null", code: mcp.CodeUpstreamAuthFailed},
		"401":               {status: 401, code: mcp.CodeUpstreamAuthFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse := func(w http.ResponseWriter, m rpc) bool {
				if m.Method != mcp.MethodToolsCall {
					return false
				}
				if tt.challenge != "" {
					w.Header().Set("WWW-Authenticate", tt.challenge)
				}
				if tt.id != "" {
					m.ID = []byte(tt.id)
				}
				failure(w, tt.status, m, `{"code":-32003,"message":"the quota is used up"}`)
				return true
			}
			var u *upstream.Upstream
			if tt.overSSE {
				f := newSSEFake(t, newFake)
				f.posted = func(_ *sseStream, w http.ResponseWriter, _ *http.Request, m rpc) bool { return refuse(w, m) }
				u = f.fake.start(t, upstream.Config{Transport: "sse"})
			} else {
				u = newFake(t, true, func(_ *fake, w http.ResponseWriter, _ *http.Request,
					m rpc) bool {
					return refuse(w, m)
				}).start(t, upstream.Config{})
			}
			_, err := do(t, u, tool("a"))
			e, ok := err.(*mcp.Error)
			if !ok || e.Code != tt.code || strings.Contains(e.Message, "quota") != tt.own {
				t.Errorf("error %v", err)
			}
			if got := u.Status().State; tt.own && got != upstream.StateReady {
				t.Errorf("the server is %s", got)
			}
		})
	}
}

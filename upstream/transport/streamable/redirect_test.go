package streamable_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
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
			f := fake.New(t, true, func(f *fake.Server, w http.ResponseWriter, r *http.Request, _ fake.Message) bool {
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
			f.Path = "/mcp"
			u := f.Upstream(t, upstream.Config{})
			want := strings.NewReplacer("$HOST", f.URL, "$NAME", strings.TrimPrefix(f.URL, "http://")).Replace(tt.want)
			if tt.want == "" {
				fake.WantOK(t, u, fake.Tool("a"))
				return
			}
			_, err := fake.Do(t, u, fake.Tool("a"))
			e := fake.WantError(t, err, mcp.CodeUpstreamBadAnswer, mcp.ExecutedNo)
			if !strings.Contains(e.Cause, want) || strings.Contains(e.Cause, "secret") {
				t.Errorf("cause %s, want %s", e.Cause, want)
			}
			if n := len(f.Requests(mcp.MethodDiscover)); n > 4 {
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
			refuse := func(w http.ResponseWriter, m fake.Message) bool {
				if m.Method != mcp.MethodToolsCall {
					return false
				}
				if tt.challenge != "" {
					w.Header().Set("WWW-Authenticate", tt.challenge)
				}
				if tt.id != "" {
					m.ID = []byte(tt.id)
				}
				fake.Failure(w, tt.status, m, `{"code":-32003,"message":"the quota is used up"}`)
				return true
			}
			var u *fake.Upstream
			if tt.overSSE {
				f := fake.NewSSE(t, fake.New)
				f.Posted = func(_ *fake.Stream, w http.ResponseWriter, _ *http.Request, m fake.Message) bool { return refuse(w, m) }
				u = f.Server.Upstream(t, upstream.Config{Transport: "sse"})
			} else {
				u = fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request,
					m fake.Message) bool {
					return refuse(w, m)
				}).Upstream(t, upstream.Config{})
			}
			_, err := fake.Do(t, u, fake.Tool("a"))
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

package upstream_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestLastWordsOfAProgram: an operator reads how a program ended and what it said.
func TestLastWordsOfAProgram(t *testing.T) {
	const script = `echo "cannot open $KEY: eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.x" >&2; exit 3`
	u := fake.Start(t, upstream.Config{Command: []string{"sh", "-c", script},
		Env: map[string]mcp.Secret{"KEY": "s3cret-key"}})
	_, err := fake.Do(t, u, fake.Tool("a"))
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || !strings.Contains(e.Cause, "exit status 3") ||
		!strings.Contains(e.Cause, "cannot open <redacted>: <redacted>") {
		t.Fatalf("the error is %v, its cause %q", err, e.Cause)
	}
	if strings.Contains(e.Message, "cannot open") {
		t.Errorf("a client reads %q", e.Message)
	}
}

// TestWordsOfAServer: an operator reads what a server says when it refuses, without the credential.
func TestWordsOfAServer(t *testing.T) {
	const token = "t0ken-of-the-gateway"
	for name, answer := range map[string]func(http.ResponseWriter, fake.Message){
		"a text": func(w http.ResponseWriter, _ fake.Message) {
			http.Error(w, "The key "+token+" was revoked on 2026-01-02.", http.StatusUnauthorized)
		},
		"a page": func(w http.ResponseWriter, _ fake.Message) {
			http.Error(w, "<html><b>The key <i>"+token+"</i>\n was revoked on 2026-01-02.", http.StatusUnauthorized)
		},
		"an error": func(w http.ResponseWriter, m fake.Message) {
			fake.Failure(w, 401, m, `{"code":-32000,"message":"The key `+token+` was revoked on 2026-01-02."}`)
		},
		"a challenge": func(w http.ResponseWriter, _ fake.Message) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="x", error="invalid_token", error_description="The key `+token+
				` was revoked on 2026-01-02."`)
			w.WriteHeader(401)
		},
	} {
		f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
			answer(w, m)
			return true
		})
		u, _ := fake.StartAuthorized(t, upstream.Config{URL: f.URL,
			Auth: outbound.Config{Type: outbound.TypeBearer, Token: token}})
		_, err := fake.Do(t, u, fake.Tool("a"))
		e := fake.WantError(t, err, mcp.CodeUpstreamAuthFailed, mcp.ExecutedNo)
		if !strings.Contains(e.Cause, "HTTP status 401: The key <redacted> was revoked on 2026-01-02.") ||
			u.Status().Last.Cause != e.Cause {
			t.Errorf("%s: the cause is %q", name, e.Cause)
		}
		if strings.Contains(e.Message, "revoked") {
			t.Errorf("%s: a client reads %q", name, e.Message)
		}
	}
}

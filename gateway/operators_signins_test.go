package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestFailedSignIns: operators see which client was refused, why and what to do, and no part of a token.
func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := newSite(t, true, one("work", saying("x")))
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer.Audience = "http://" + listener.Addr().String() + "/mcp"
	c := &configured{file: filepath.Join(t.TempDir(), "gatehouse.yaml"), log: &mcptest.Log{}, look: time.Hour}
	c.write(t, operatorsConfig+fmt.Sprintf("upstreams: [{name: up, url: %q}]\npublic_url: %q\npolicy: {default: allow}\nauth: {mode: oauth, issuers: [{url: %q}]}\n", site.url, issuer.Audience, issuer.URL))
	if c.Gateway, err = New(Options{ConfigFile: c.file, Listener: listener, Log: slog.New(slog.NewTextHandler(c.log, nil))}); err != nil {
		t.Fatal(err)
	}
	c.Start()
	defer c.Stop(ctx)
	expired := issuer.Token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix(), "iat": time.Now().Add(-2 * time.Hour).Unix()})
	elsewhere := issuer.Token(map[string]any{"aud": "https://other.example.com"})
	for _, one := range []struct{ agent, token string }{
		{"claude-code/2.0", expired}, {"claude-code/2.1", expired}, {"cursor/1", elsewhere}, {expired, expired},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+one.token)
		r.Header.Set("User-Agent", one.agent)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%s: %d", one.agent, answer.StatusCode)
		}
	}
	const signins = "/api/v1/signins"
	status, text := operatorsOf(t, c).ask(t, viewerToken, http.MethodGet, signins, signins, "")
	var got admin.SignIns
	if status != http.StatusOK || json.Unmarshal([]byte(text), &got) != nil || len(got.Failures) != 3 || len(got.Last) != 4 {
		t.Fatalf("%d %s", status, text)
	}
	for i, want := range []admin.SignInFailure{
		{Reason: "the token has expired", Count: 1}, {Agent: "cursor", Reason: "the token is for another audience", Count: 1},
		{Agent: "claude-code", Reason: "the token has expired", Count: 2},
	} {
		f := got.Failures[i]
		if f.Agent != want.Agent || f.Reason != want.Reason || f.Count != want.Count || f.Remedy == "" || f.Event != "refused" || time.Since(f.Last) > patience {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
	for _, token := range []string{expired, elsewhere} {
		for part := range strings.SplitSeq(token, ".") {
			if strings.Contains(text, part[:min(len(part), 30)]) {
				t.Errorf("a part of a token is in %s", text)
			}
		}
	}
}

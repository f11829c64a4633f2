package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestFailedSignIns: an operator sees which client is refused, why, and what to do.
func TestFailedSignIns(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.write(t, fmt.Sprintf(`listen: 127.0.0.1:0
public_url: https://gateway.example.com/mcp
admin: {listen: %q, api: {loopback: viewer}}
auth: {mode: oauth, issuers: [{url: %q}]}
policy: {default: allow}
upstreams: [{name: off, url: "http://127.0.0.1:1/mcp", enabled: false}]
`, free.Addr(), issuer.URL))
	g := startFrom(t, o.file)
	if out, problems, code := o.run("auth", "failed"); code != 0 || out != "" || problems != "no sign-in failed, as far as records are kept\n" {
		t.Errorf("%d %s%s", code, out, problems)
	}
	token := issuer.Token(map[string]any{"aud": "https://gateway.example.com/mcp", "exp": time.Now().Add(-time.Hour).Unix()})
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL(), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("User-Agent", "claude-code/2.0")
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"auth", "failed"}, 0, `^CLIENT +TIMES +LAST +REASON\nclaude-code +2 +\d+s +the token has expired\n  Sign in again and use the new token\..*\n$`, `^$`},
		{[]string{"auth", "failed", "--json"}, 0, `^\{"failures":\[\{"agent":"claude-code","event":"refused","reason":"the token has expired","remedy":".*","count":2,`, `^$`},
		{[]string{"auth", "failed", "--since", "soon"}, 1, `^$`, `--since "soon": want a time`},
	} {
		stdout, stderr, code := o.run(tt.args...)
		if code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) || !regexp.MustCompile(tt.stderr).MatchString(stderr) || strings.Contains(stdout, token[:20]) {
			t.Errorf("%q: exit code %d\n%s%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// TestFailedSignInsLeftOut: an operator hears that an answer is not all of it.
func TestFailedSignInsLeftOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"failures":[{"agent":"a","event":"refused","reason":"no","count":1}],"left_out":7,"last":[],"partial":"no\u001b[2J answer"}`)
	}))
	defer s.Close()
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.write(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q, api: {loopback: viewer}}\nupstreams: [{name: off, url: \"http://127.0.0.1:1/mcp\", enabled: false}]\n", s.Listener.Addr()))
	_, problems, code := o.run("auth", "failed")
	if code != 0 || !strings.Contains(problems, "7 more") || strings.Contains(problems, "\x1b") {
		t.Errorf("%d %q", code, problems)
	}
}

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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
	adminAddress := mcptest.LoopbackAddress(t)
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.write(t, fmt.Sprintf(`listen: 127.0.0.1:0
public_url: https://gateway.example.com/mcp
admin: {listen: %q, api: {loopback: viewer}}
auth: {mode: oauth, issuers: [{url: %q}]}
policy: {default: allow}
upstreams: [{name: off, url: "http://127.0.0.1:1/mcp", enabled: false}]
`, adminAddress, issuer.URL))
	g := startFrom(t, o.file)
	if out, problems, code := o.run("auth", "failed"); code != 0 || out != "" ||
		problems != "no sign-in failed, as far as records are kept\n" {
		t.Errorf("%d %s%s", code, out, problems)
	}
	token := issuer.Token(map[string]any{"aud": "https://gateway.example.com/mcp",
		"exp": time.Now().Add(-time.Hour).Unix()})
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
		{[]string{"auth", "failed"}, 0,
			`^CLIENT +TIMES +LAST +REASON\nclaude-code +2 +\d+s +the token has expired\n  Sign in again and use the new token\..*\n$`, `^$`},
		{[]string{"auth", "failed", "--json"}, 0,
			`^\{"failures":\[\{"agent":"claude-code","event":"refused","reason":"the token has expired","remedy":".*","count":2,`, `^$`},
		{[]string{"auth", "failed", "--since", "soon"}, 2, `^$`, `--since "soon": want a time`},
	} {
		stdout, stderr, code := o.run(tt.args...)
		if code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) ||
			!regexp.MustCompile(tt.stderr).MatchString(stderr) || strings.Contains(stdout, token[:20]) {
			t.Errorf("%q: exit code %d\n%s%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// TestFailedSignInsLeftOut: an operator hears that an answer is not all of it, and who each client is: what
// it calls itself, and its id.
func TestFailedSignInsLeftOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"failures":[{"agent":"a","event":"refused","reason":"no","count":1},{"agent":"Claude","client":"https://claude.ai/c.json","event":"denied","reason":"no","count":1},{"client":"c-7","event":"denied","reason":"no","count":1},{"event":"refused","reason":"no","count":1}],"left_out":7,"last":[],"partial":"no\u001b[2J answer"}`)
	}))
	defer s.Close()
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.write(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q, api: {loopback: viewer}}\nupstreams: [{name: off, url: \"http://127.0.0.1:1/mcp\", enabled: false}]\n", s.Listener.Addr()))
	out, problems, code := o.run("auth", "failed")
	for _, client := range []string{`a`, `Claude https://claude\.ai/c\.json`, `c-7`, `-`} {
		if !regexp.MustCompile(`(?m)^` + client + ` +1 `).MatchString(out) {
			t.Errorf("%s is not among\n%s", client, out)
		}
	}
	if code != 0 || !strings.Contains(problems, "7 more") || strings.Contains(problems, "\x1b") {
		t.Errorf("%d %q", code, problems)
	}
}

// TestAuthTestRunning: what the configuration alone cannot judge, the gateway that runs does, for an
// operator.
func TestAuthTestRunning(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	issuer.Audience = "https://gateway.example.com/mcp"
	adminAddress := mcptest.LoopbackAddress(t)
	o := &operated{file: filepath.Join(t.TempDir(), "gatehouse.yaml")}
	o.write(t, fmt.Sprintf(`listen: 127.0.0.1:0
public_url: https://gateway.example.com/mcp
admin: {listen: %q, api: {loopback: viewer, tokens: [{name: sees, role: viewer, token: another-%s}, {name: ops, role: operator, token: %s}]}}
auth:
  mode: oauth
  issuers: [{url: %q}]
  server: {enabled: true, client_id: gatehouse, clients: [{id: web, name: Web, redirect_uris: ["https://app.example/cb"]}]}
policy: {default: deny, rules: [{name: staff, who: {groups: [staff]}, allow: ["*:*"]}]}
upstreams: [{name: off, url: "http://127.0.0.1:1/mcp", enabled: false}]
`, adminAddress, operatorToken, operatorToken, issuer.URL))
	startFrom(t, o.file)
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	own := part(`{"alg":"ES256","typ":"at+jwt","kid":"none"}`) + "." +
		part(`{"iss":"https://gateway.example.com/mcp","aud":"https://gateway.example.com/mcp","sub":"ann"}`) + "." +
		part("no signature")
	good := issuer.Token(map[string]any{"sub": "ann", "groups": []string{"staff"}})
	file := func(token string) string {
		at := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(at, []byte("Authorization: Bearer "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	ours, provider := file(own), file(good)
	there := "http://" + adminAddress
	for _, tt := range []struct {
		env    string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"", []string{"-c", o.file, "--token-file", ours}, 1,
			`(?s)^It is a JWT\..* issuer +failed\n.*\nNext: .* gatehouse auth test --running`, `^$`},
		{"", []string{"-c", o.file, "--token-file", ours, "--running"}, 1,
			`(?s)^It is an access token of the gateway's own authorization server\..* signature +failed\n.*\nRefused: the token's signature cannot be verified \(HTTP 401, GH-TOKEN-INVALID\)\n`, `^$`},
		{"", []string{"-c", o.file, "--token-file", provider, "--running"}, 0,
			`(?s)\nAccepted.* user +ann\n.* rules for it +staff\n`, `^$`},
		{operatorToken, []string{"--admin", there, "--token-file", provider, "--json"}, 0,
			`^\{"kind":"a JWT","good":true,.*"rules":\["staff"\]\}\n$`, `^$`},
		{"another-" + operatorToken, []string{"--admin", there, "--token-file", provider}, 1, `^$`,
			`needs the role operator.*\(GH-ADMIN-ROLE\)`},
		{operatorToken, []string{"--admin", there, "--token-file", provider, "--view", "none"}, 1, `^$`,
			`no view of this name: leave it out`},
		{"", []string{"--admin", there, "-c", o.file, "--token-file", provider}, 2, `^$`, `--config FILE or --admin URL`},
		{"", []string{"--token-file", provider}, 2, `^$`, `--config FILE or --admin URL`},
		{"", []string{"--admin", there, "--user", "ann"}, 2, `^$`, `give --config alone`},
	} {
		t.Setenv(tokenVariable, tt.env)
		var out, problems bytes.Buffer
		code := run(append([]string{"auth", "test"}, tt.args...), strings.NewReader(""), &out, &problems)
		stdout, stderr := out.String(), problems.String()
		if code != tt.code || !regexp.MustCompile(tt.stdout).MatchString(stdout) ||
			!regexp.MustCompile(tt.stderr).MatchString(stderr) {
			t.Errorf("%q: exit code %d\n%s%s\nwant %d\n%s\n%s", tt.args, code, stdout, stderr, tt.code, tt.stdout, tt.stderr)
		}
		if strings.Contains(stdout+stderr, own[:40]) || strings.Contains(stdout+stderr, good[:40]) ||
			strings.Contains(stdout+stderr, good[len(good)-20:]) {
			t.Errorf("%q: tells the token: %s%s", tt.args, stdout, stderr)
		}
	}
}

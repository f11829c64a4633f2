//go:build interop

package interop

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// trySignIn puts the gateway between clients and servers, while users sign in at a
// third-party authorization server with the SDKs' own OAuth clients, without a browser.
func (l *lab) trySignIn(t *testing.T, upstreams []upstream) {
	s := l.startSite(t, upstreams)
	for _, c := range []client{
		{name: "TypeScript SDK v1", sdk: "v1", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 legacy", sdk: "v2", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 auto", sdk: "v2", mode: "auto", version: stateless},
		{name: "TypeScript SDK v2 pinned", sdk: "v2", mode: stateless, version: stateless},
	} {
		t.Run(c.name+"/ada", func(t *testing.T) { l.tryAda(t, c, s) })
		t.Run(c.name+"/bob", func(t *testing.T) { l.tryBob(t, c, s) })
	}
	for _, mode := range []string{"legacy", "modern"} {
		t.Run("Inspector "+mode, func(t *testing.T) {
			token := s.token(t, 0, s.url, "mcp")
			o := l.inspect(t, []string{"--server-url", s.url, "--transport", "http"}, mode, "tools/call", "--tool-name", s.everything.tool("get-sum"), "--tool-arg", "a=2",
				"--tool-arg", "b=3",
				"--header", "Authorization: Bearer "+token)
			wantText("The sum of 2 and 3 is 5.")(t, o)
		})
	}
	t.Run("refused", func(t *testing.T) { s.tryRefusals(t) })
}

// tryAda signs in an engineer, lets the access token expire, and continues.
func (l *lab) tryAda(t *testing.T, c client, s site) {
	c.user = "ada"
	sum := callTool(s.everything.tool("get-sum"), object{"a": 2, "b": 3})
	expectations := []expectation{
		{"tools list", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			want := []string{s.python.tool("add")}
			for _, name := range s.everything.tools() {
				if name != "get-env" {
					want = append(want, s.everything.tool(name))
				}
			}
			o.wantExactly(t, want, s)
		}},
		{"call", sum, wantText("The sum of 2 and 3 is 5.")},
		{"call what policy denies", callTool(s.everything.tool("get-env"), nil),
			func(t *testing.T, o outcome) { o.wantError(t, -32602) }},
		{"call what policy does not allow", callTool(s.python.tool("fail"), nil),
			func(t *testing.T, o outcome) { o.wantError(t, -32602) }},
		{"expire", step{Method: "account/age", Params: object{"seconds": 3600}},
			func(t *testing.T, o outcome) { o.noError(t) }},
		{"call after expiry", sum, wantText("The sum of 2 and 3 is 5.")},
	}
	r := l.tryAs(t, c, s, expectations)
	t.Run("refresh", func(t *testing.T) { s.checkRefresh(t, r) })
}

// tryBob signs in a user of another group.
func (l *lab) tryBob(t *testing.T, c client, s site) {
	c.user = "bob"
	l.tryAs(t, c, s, []expectation{
		{"tools list", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			var want []string
			for _, name := range s.python.tools() {
				want = append(want, s.python.tool(name))
			}
			o.wantExactly(t, want, s)
		}},
		{"call", callTool(s.python.tool("add"), object{"a": 2, "b": 3}), func(t *testing.T, o outcome) { o.noError(t) }},
		{"call the other group's tool", callTool(s.everything.tool("get-sum"), object{"a": 2, "b": 3}),
			func(t *testing.T, o outcome) { o.wantError(t, -32602) }},
	})
}

// tryAs performs the steps as a user and checks how the client signed in.
func (l *lab) tryAs(t *testing.T, c client, s site, expectations []expectation) report {
	t.Helper()
	var steps []step
	for _, e := range expectations {
		steps = append(steps, e.step)
	}
	r := l.run(t, c, s.url, steps)
	if r.Version != c.version {
		t.Errorf("negotiated %q, want %q", r.Version, c.version)
	}
	t.Run("sign-in", func(t *testing.T) { s.checkSignIn(t, r) })
	for i, e := range expectations {
		t.Run(e.title, func(t *testing.T) { e.check(t, r.Outcomes[i]) })
	}
	return r
}

// checkSignIn checks that the client found its way with the metadata of the gateway and the
// issuer, and got a token for the gateway.
func (s site) checkSignIn(t *testing.T, r report) {
	var have []string
	for _, e := range r.Trace {
		have = append(have, fmt.Sprintf("%s %s %d %s %s", e.Method, e.URL, e.Status, e.Grant, e.Resource))
	}
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	metadata := "http://" + u.Host + "/.well-known/oauth-protected-resource" + u.Path
	want := []string{
		"POST " + s.url + " 401  ",
		"GET " + metadata + " 200  ",
		"GET " + s.issuer + "/.well-known/oauth-authorization-server 200  ",
		"POST " + s.issuer + "/reg 201  ",
		"POST " + s.issuer + "/token 200 authorization_code " + s.url,
		"POST " + s.url + " 200  ",
	}
	if len(have) < len(want) || !slices.Equal(have[:len(want)], want) {
		t.Fatalf("the client sent\n%s\nwant it to begin with\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if want := fmt.Sprintf("Bearer resource_metadata=%q, scope=%q", metadata, "mcp"); r.Trace[0].Challenge != want {
		t.Errorf("the first challenge is %s, want %s", r.Trace[0].Challenge, want)
	}
}

// checkRefresh checks that one request was refused, that a new token for the gateway
// followed, and that a stateful client kept its session.
func (s site) checkRefresh(t *testing.T, r report) {
	refused := slices.IndexFunc(r.Trace,
		func(e exchange) bool { return e.Authorized && e.Status == http.StatusUnauthorized })
	if refused < 0 || len(r.Trace) < refused+3 {
		t.Fatalf("no token was refused and renewed in %+v", r.Trace)
	}
	if c := r.Trace[refused].Challenge; !strings.Contains(c, `error="invalid_token"`) {
		t.Errorf("the challenge of an expired token is %s", c)
	}
	after := r.Trace[refused+1:]
	if e := after[0]; e.Grant != "refresh_token" || e.Resource != s.url || e.Status != http.StatusOK {
		t.Errorf("after the refusal the client sent %+v, want a refresh", e)
	}
	for _, e := range after[1:] {
		if e.Status >= http.StatusBadRequest && e.Status != http.StatusMethodNotAllowed {
			t.Errorf("after the refresh: %+v", e)
		}
	}
	sessions := map[string]bool{}
	for _, e := range r.Trace {
		if e.Session != "" {
			sessions[e.Session] = true
		}
	}
	if want := map[string]int{stateful: 1, stateless: 0}[r.Version]; len(sessions) != want {
		t.Errorf("the client used %d sessions, want %d", len(sessions), want)
	}
}

// wantExactly requires these tools in the list, and no others of the upstreams whose tools
// are known. server-everything has more tools than we know, some of which come and go.
func (o outcome) wantExactly(t *testing.T, want []string, s site) {
	t.Helper()
	o.noError(t)
	var have []string
	for _, raw := range o.Result.Tools {
		have = append(have, nameOf(t, raw))
	}
	containsAll(t, have, want)
	known := map[string]bool{}
	for _, u := range []upstream{s.everything, s.python} {
		for _, name := range u.tools() {
			known[u.tool(name)] = true
		}
	}
	prefixes := map[string]bool{}
	for _, name := range want {
		prefix, _, _ := strings.Cut(name, "__")
		prefixes[prefix] = true
	}
	for _, name := range have {
		prefix, _, _ := strings.Cut(name, "__")
		if known[name] && !slices.Contains(want, name) || !prefixes[prefix] {
			t.Errorf("%q is listed, and not for this user", name)
		}
	}
}

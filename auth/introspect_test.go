package auth_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// asks configures introspection at the first issuer.
func asks(issuer *mcptest.Issuer) func(*auth.Config) {
	return func(c *auth.Config) {
		c.Issuers[0].Introspection = &auth.Introspection{ClientID: issuer.ClientID,
			ClientSecret: mcp.Secret(issuer.ClientSecret)}
	}
}

// What an issuer says about opaque tokens is held against the same rules.
func TestOpaqueTokens(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	g := newGate(t, asks(issuer), issuer)
	tests := []struct {
		name   string
		claims claims
		status int
	}{
		{"active", nil, 200},
		{"without iss", claims{"iss": nil}, 200},
		{"with the right token_type", claims{"token_type": "Bearer"}, 200},
		{"active false", claims{"active": false}, 401},
		{"active by words", claims{"active": "true"}, 503},
		{"active missing", claims{"active": nil}, 503},
		{"another issuer", claims{"iss": "https://login.example.com"}, 401},
		{"another audience", claims{"aud": "https://api.example"}, 401},
		{"no audience", claims{"aud": nil}, 401},
		{"no subject", claims{"sub": nil}, 401},
		{"no exp", claims{"exp": nil}, 401},
		{"expired", claims{"exp": time.Now().Add(-time.Minute).Unix()}, 401},
		{"not yet", claims{"nbf": time.Now().Add(time.Hour).Unix()}, 401},
		{"bound to a key", claims{"cnf": claims{"jkt": "x"}}, 401},
		{"DPoP", claims{"token_type": "DPoP"}, 401},
		{"a refresh token", claims{"typ": "Refresh"}, 401},
		{"too many groups", claims{"groups": make([]string, 501)}, 403},
		{"64 KiB", claims{"x": strings.Repeat("x", 64<<10)}, 503},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			token := issuer.Opaque(tt.claims)
			a := g.bearer(token)
			a.expect(t, tt.status)
			if tt.status == 200 && (a.caller.Subject != "alice" || a.caller.Issuer != issuer.URL ||
				string(a.caller.Token) != token || a.caller.Expires.IsZero()) {
				t.Errorf("got %+v", a.caller)
			}
		})
	}
	g.bearer("never-issued").expect(t, 401, invalidToken)
	g.bearer(issuer.Token(nil)).expect(t, 200) // JWTs are verified here
	for _, token := range issuer.Introspected() {
		if strings.HasPrefix(token, "eyJ") {
			t.Error("a JWT was introspected")
		}
	}
}

// An issuer that cannot be asked leaves us without a judgement.
func TestIntrospectionFails(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"500": mcptest.Status(500), "404": mcptest.Status(404), "our secret is refused": mcptest.Status(401),
		"we are refused": mcptest.Status(403),
		"HTML":           mcptest.HTML, "10 MB": mcptest.Huge(10 << 20), "a list": mcptest.Body("application/json", "[]"),
		"a redirect":   mcptest.Redirect("/token"),
		"active twice": mcptest.Body("application/json", `{"active":false,"active":true}`),
		"a bomb":       mcptest.Bomb(2 << 20),
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{})
			g := newGate(t, asks(issuer), issuer)
			token := issuer.Opaque(nil)
			issuer.Break(mcptest.EndpointIntrospect, fault)
			g.bearer(token).expect(t, 503)
			g.bearer(issuer.Token(nil)).expect(t, 200)
			if s := g.Status()[0]; s.State != auth.StateDegraded || !strings.Contains(s.Reason, "introspected") {
				t.Errorf("got status %+v", s)
			}
			issuer.Mend() // and nothing of it is remembered
			g.bearer(token).expect(t, 200)
			if s := g.Status()[0]; s.State != auth.StateReady {
				t.Errorf("got status %+v", s)
			}
		})
	}
}

// Answers are remembered for a minute at most, and not beyond exp; bad ones for 5 s.
func TestIntrospectionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, asks(issuer), issuer)
		asked := func(want int) {
			t.Helper()
			if n := issuer.Fetches(mcptest.EndpointIntrospect); n != want {
				t.Errorf("asked %d times, want %d", n, want)
			}
		}
		token := issuer.Opaque(claims{"exp": time.Now().Add(time.Hour).Unix()})
		g.bearer(token).expect(t, 200)
		issuer.Revoke(token)
		time.Sleep(time.Minute - time.Second)
		g.bearer(token).expect(t, 200)
		asked(1)
		time.Sleep(time.Second)
		g.bearer(token).expect(t, 401, invalidToken)
		asked(2)
		time.Sleep(5*time.Second - time.Millisecond)
		g.bearer(token).expect(t, 401, invalidToken)
		asked(2)
		time.Sleep(time.Millisecond)
		g.bearer(token).expect(t, 401, invalidToken)
		asked(3)

		many := issuer.Opaque(claims{"groups": make([]string, 501)})
		g.bearer(many).expect(t, 403)
		g.bearer(many).expect(t, 403, "resource_metadata")
		asked(4)

		short := issuer.Opaque(claims{"exp": time.Now().Add(-10 * time.Second).Unix()}) // good by the leeway
		g.bearer(short).expect(t, 200)
		time.Sleep(20 * time.Second)
		g.bearer(short).expect(t, 401, invalidToken)
		asked(6)
	})
}

// Many requests with one token ask once, and an issuer that hangs is waited for no
// longer than the time limit, by a bounded number of requests.
func TestIntrospectionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, asks(issuer), issuer)
		synctest.Wait()
		issuer.Break(mcptest.EndpointIntrospect, mcptest.Hang)
		start := time.Now()
		var all sync.WaitGroup
		token := issuer.Opaque(nil)
		for range 50 {
			all.Go(func() { g.bearer(token).expect(t, 503) })
		}
		synctest.Wait()
		if n := issuer.Fetches(mcptest.EndpointIntrospect); n != 1 {
			t.Errorf("asked %d times about one token", n)
		}
		for range 100 {
			other := issuer.Opaque(nil)
			all.Go(func() { g.bearer(other).expect(t, 503) })
		}
		synctest.Wait()
		if n := issuer.Fetches(mcptest.EndpointIntrospect); n != 32 {
			t.Errorf("asked %d times at once", n)
		}
		for range 850 {
			other := issuer.Opaque(nil)
			all.Go(func() { g.bearer(other).expect(t, 503) })
		}
		synctest.Wait()
		g.bearer(issuer.Opaque(nil)).expect(t, 503)
		if took := time.Since(start); took != 0 {
			t.Errorf("with a thousand waiting, one more waited %s", took)
		}
		g.bearer(issuer.Token(nil)).expect(t, 200)
		all.Wait()
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// An opaque token is shown to nobody without introspection, and what looks like JOSE is
// shown to nobody at all: it may be another issuer's.
func TestOpaqueStays(t *testing.T) {
	first, second := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	without := newGate(t, nil, first, second)
	without.bearer(first.Opaque(nil)).expect(t, 401, invalidToken)
	g := newGate(t, asks(first), first, second)
	jwt := second.Token(nil)
	parts := strings.Split(jwt, ".")
	for _, token := range []string{jwt + "=", parts[0] + "." + parts[1], parts[0], jwt + "." + parts[2], "a.b.c.d", "..",
		"a..b", "=", "a b", "a,b", "a\u00e9", `a"b`, strings.Repeat("a", 16<<10+1)} {
		g.bearer(token).expect(t, 401, invalidToken)
	}
	if n := first.Fetches(mcptest.EndpointIntrospect) + second.Fetches(mcptest.EndpointIntrospect); n != 0 {
		t.Errorf("%d tokens were shown: %q", n, append(first.Introspected(), second.Introspected()...))
	}
	for _, token := range []string{"a", "a.b", "a~b+c/d==", "ya29.A0Ab-_c"} {
		g.bearer(token).expect(t, 401, invalidToken)
	}
	if n := len(first.Introspected()); n != 4 {
		t.Errorf("%d opaque tokens were introspected", n)
	}
	if n := second.Fetches(mcptest.EndpointIntrospect); n != 0 {
		t.Errorf("the other issuer was shown %d tokens", n)
	}
}

// The endpoint comes from the metadata or the configuration; an issuer of opaque tokens
// alone needs no keys.
func TestIntrospectionEndpoint(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	issuer.SetMetadata("introspection_endpoint", nil)
	g := newGate(t, asks(issuer), issuer)
	g.bearer(issuer.Opaque(nil)).expect(t, 503)
	configured := newGate(t, func(c *auth.Config) {
		asks(issuer)(c)
		c.Issuers[0].Introspection.URL = issuer.URLOf(mcptest.EndpointIntrospect)
	}, issuer)
	configured.bearer(issuer.Opaque(nil)).expect(t, 200)

	inside := newIssuer(t, mcptest.IssuerOptions{})
	issuer.SetMetadata("introspection_endpoint", inside.URLOf(mcptest.EndpointIntrospect))
	newGate(t, asks(issuer), issuer).bearer(issuer.Opaque(nil)).expect(t, 503)
	if n := inside.Fetches(mcptest.EndpointIntrospect); n != 0 {
		t.Error("our secret was shown to a host that the operator did not write")
	}

	keyless := newIssuer(t, mcptest.IssuerOptions{})
	keyless.SetMetadata("jwks_uri", nil)
	g = newGate(t, asks(keyless), keyless)
	g.bearer(keyless.Opaque(nil)).expect(t, 200)
	g.bearer(keyless.Token(nil)).expect(t, 401, invalidToken)
	if s := g.Status()[0]; s.State != auth.StateReady || s.Keys != 0 {
		t.Errorf("got status %+v", s)
	}
}

// Introspection waits for the metadata at the start, and for no longer than a fetch.
func TestIntrospectionAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		issuer.BreakAll(mcptest.Status(500))
		g := newBubbleGate(t, asks(issuer), issuer)
		g.bearer(issuer.Opaque(nil)).expect(t, 503)
		issuer.Mend()
		time.Sleep(time.Minute)
		g.bearer(issuer.Opaque(nil)).expect(t, 200)
	})
}

// The client that asked first may leave: those that wait for the same answer get
// it.
func TestIntrospectionOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, asks(issuer), issuer)
		synctest.Wait()
		token := issuer.Opaque(nil)
		answer := make(chan struct{})
		issuer.Break(mcptest.EndpointIntrospect, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-answer:
				io.WriteString(w, `{"active":true,"sub":"alice","aud":"`+publicURL+`","exp":9e9}`)
			case <-r.Context().Done():
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, publicURL, nil)
			r.Header.Set("Authorization", "Bearer "+token)
			g.do(r)
		})
		synctest.Wait()
		all.Go(func() { g.bearer(token).expect(t, 200) })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(answer)
		all.Wait()
		if n := issuer.Fetches(mcptest.EndpointIntrospect); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Who makes up opaque tokens has the issuer asked about one at a time after the first few,
// and keeps nobody waiting who comes from elsewhere. In a bubble of synctest.
func TestMadeUpOpaqueTokens(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		checkMadeUpOpaqueTokens(t, func(r *http.Request, remote string) { r.RemoteAddr = remote })
	})
	t.Run("a proxy names them", func(t *testing.T) {
		checkMadeUpOpaqueTokens(t, func(r *http.Request, remote string) {
			r.RemoteAddr = "10.0.0.1:1"
			r.Header.Set("From-Address", netip.MustParseAddrPort(remote).Addr().String())
		})
	})
}

func checkMadeUpOpaqueTokens(t *testing.T, comes func(r *http.Request, remote string)) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, asks(issuer), issuer)
		synctest.Wait()
		from := func(remote, token string) int {
			r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
			comes(r, remote)
			r.Header.Set("Authorization", "Bearer "+token)
			return g.do(r).Code
		}
		const here, there = "[2001:db8::1]:1", "192.0.2.7:1"
		for i := range 20 {
			if got := from(here, fmt.Sprint("made-up-", i)); got != 401 {
				t.Errorf("token %d: %d", i, got)
			}
		}
		good := issuer.Opaque(nil)
		issuer.BreakAll(mcptest.Hang)
		before := issuer.Fetches(mcptest.EndpointIntrospect)
		asked := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if n := issuer.Fetches(mcptest.EndpointIntrospect) - before; n != want {
				t.Errorf("%s: the issuer is asked about %d at a time, want %d", what, n, want)
			}
		}
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { // from one network
				if got := from(fmt.Sprintf("[2001:db8::%x]:1", i+1), fmt.Sprint("more-", i)); got != 503 && got != 401 {
					t.Errorf("a token that is no good: %d", got)
				}
			})
		}
		asked("200 more", 1)
		all.Go(func() { from(there, good) })
		asked("one from elsewhere", 2)
		issuer.Mend()
		time.Sleep(2 * time.Minute)
		all.Wait()
		if got := from(there, good); got != 200 {
			t.Errorf("a good token: %d", got)
		}
		if got := from(here, issuer.Opaque(nil)); got != 200 {
			t.Errorf("a good token from there, later: %d", got)
		}
	})
}

// Behind a proxy all come from one address: who makes up opaque tokens there does not keep
// waiting those whose tokens are good. In a bubble of synctest.
func TestMadeUpOpaqueTokensThroughAProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, asks(issuer), issuer)
		synctest.Wait()
		call := func(token string) int {
			r := httptest.NewRequest(http.MethodPost, publicURL, untouchable{})
			r.RemoteAddr = "192.0.2.7:1"
			r.Header.Set("Authorization", "Bearer "+token)
			return g.do(r).Code
		}
		if got := call(issuer.Opaque(nil)); got != 200 {
			t.Fatalf("a good token: %d", got)
		}
		time.Sleep(2 * time.Minute) // it counts longer than tokens that are no good
		for i := range 100 {
			if got := call(fmt.Sprint("made-up-", i)); got != 401 {
				t.Errorf("token %d: %d", i, got)
			}
		}
		issuer.BreakAll(mcptest.Hang)
		before := issuer.Fetches(mcptest.EndpointIntrospect)
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { call(fmt.Sprint("more-", i)) })
		}
		synctest.Wait()
		if n := issuer.Fetches(mcptest.EndpointIntrospect) - before; n != 10 {
			t.Errorf("the issuer is asked about %d at a time, want 10", n)
		}
		issuer.Mend()
		all.Wait()
	})
}

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// try calls the tool "up__do" as a stateless client with a token.
func try(t *testing.T, g *guarded, token string) *mcptest.Exchange {
	t.Helper()
	c := unopened(t, g.url, stateless)
	present(c, token)
	x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func wantStatus(t *testing.T, what string, x *mcptest.Exchange, want int) {
	t.Helper()
	if x.Status != want {
		t.Errorf("%s: %d, want %d: %s", what, x.Status, want, x.Text())
	}
}

// wantLater requires an answer that says to try again later, without blaming the client.
func wantLater(t *testing.T, what string, x *mcptest.Exchange) {
	t.Helper()
	m, err := x.Response()
	if err != nil || x.Status != 503 || m.Error == nil || m.Error.Code != 50304 || x.Header.Get("Retry-After") == "" ||
		x.Header.Get("Www-Authenticate") != "" ||
		string(m.Error.Data) != `{"retryable":true,"executed":"no","error_code":"GH-ISSUER-DOWN"}` {
		t.Errorf("%s: %d %v %s, %v; want 503 with Retry-After and without a challenge", what, x.Status, x.Header, m.Text, err)
	}
}

func doing(t *testing.T) *mcptest.Server {
	t.Helper()
	s := scripted(t, stateless)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	return s
}

// TestKeysAreRotatedInMidRun: clients of both eras call without a pause while the issuer
// changes its keys twice. No call with a valid token fails.
func TestKeysAreRotatedInMidRun(t *testing.T) {
	t.Parallel()
	s := doing(t)
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	oldest := g.issuer.Token(nil)
	wantStatus(t, "before", try(t, g, oldest), 200)
	fetches := g.issuer.Fetches(mcptest.EndpointJWKS)

	// The key of the first tokens stays when the next one comes.
	second := g.issuer.AddKey("RS256")
	var clients []*mcptest.Client
	for _, revision := range eras {
		clients = append(clients, g.raw(t, revision, oldest), g.raw(t, revision, g.issuer.Token(nil)))
	}
	if got := g.issuer.Fetches(mcptest.EndpointJWKS); got != fetches+1 {
		t.Errorf("the new key cost %d fetches, want 1", got-fetches)
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	begun := make(chan struct{}, len(clients))
	for _, c := range clients {
		running.Go(func() {
			for n := 0; ; n++ {
				m, _, err := c.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
				if err != nil || said(m) != "done" {
					t.Errorf("%s, call %d: %s, %v", c.Revision.Name, n, m.Text, err)
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range clients {
		receive(t, "the first call", begun)
	}
	third := g.issuer.AddKey("EdDSA")
	flood := g.issuer.Fetches(mcptest.EndpointJWKS)
	// Another new key so soon: there is at most one fetch on demand in 30 s, so that
	// invented keys cannot cause more requests to the issuer.
	for i := range 20 {
		x := try(t, g, third.With(fmt.Sprint("made-up-", i), "EdDSA").Sign(nil,
			claims{"iss": g.issuer.URL, "sub": "a", "aud": g.url, "exp": int64(1 << 32)}))
		wantStatus(t, "a key of which the issuer cannot be asked yet", x, 503)
	}
	if got := g.issuer.Fetches(mcptest.EndpointJWKS); got > flood+1 {
		t.Errorf("%d fetches for keys that were made up", got-flood)
	}
	close(stop)
	running.Wait()
	wantStatus(t, "the key of before that", try(t, g,
		second.Sign(nil, claims{"iss": g.issuer.URL, "sub": "b", "aud": g.url, "exp": int64(1 << 32)})), 200)
}

// TestAWithdrawnKeyDies: after the first fetch without the key, its tokens are refused,
// including those that were accepted before.
func TestAWithdrawnKeyDies(t *testing.T) {
	s := doing(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	token, next := g.issuer.Token(nil), g.issuer.Token(nil)
	session := g.raw(t, statefulClient, token)
	mustCall(t, session, "tools/call", `{"name":"up__do"}`)

	s.Tool("do", func(c *mcptest.Call) {
		started <- struct{}{}
		<-release
		c.Text("done")
	})
	late := make(chan string, 1)
	go func() {
		m, _, err := session.Call(deadline(t), "tools/call", `{"name":"up__do"}`)
		if err != nil {
			t.Error(err)
		}
		late <- said(m)
	}()
	receive(t, "the call", started)

	g.issuer.Rotate("ES256")
	// Many requests with the new key come at the same time, and one fetch is enough for
	// all.
	fetches := g.issuer.Fetches(mcptest.EndpointJWKS)
	var all sync.WaitGroup
	for i := range 8 {
		c := unopened(t, g.url, stateless)
		present(c, g.issuer.Token(claims{"sub": fmt.Sprint("user-", i)}))
		all.Go(func() {
			if m, _, err := c.Call(deadline(t), "tools/list", ""); err != nil || m.Error != nil {
				t.Errorf("with the new key: %s, %v", m.Text, err)
			}
		})
	}
	all.Wait()
	if got := g.issuer.Fetches(mcptest.EndpointJWKS) - fetches; got != 1 {
		t.Errorf("%d fetches for the new key, want 1", got)
	}
	for what, dead := range map[string]string{"a token that was used": token, "one that was not": next} {
		x := try(t, g, dead)
		wantStatus(t, what, x, 401)
		if got := x.Header.Get("Www-Authenticate"); !strings.Contains(got, `error="invalid_token"`) {
			t.Errorf("%s: the challenge is %s", what, got)
		}
	}
	if got := wholeAnswer(t, session, "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		nil); !strings.HasPrefix(got, "401\n") {
		t.Errorf("in the session: %s", got)
	}
	close(release)
	if got := receive(t, "the end of the call", late); got != "done" {
		t.Errorf("the call that ran: %s", got)
	}
	present(session, g.issuer.Token(nil))
	mustCall(t, session, "ping", "{}") // the session belongs to the user, not to the key
}

// TestTheIssuerIsDownAtStart: the gateway starts, says that it cannot verify tokens, and
// recovers.
func TestTheIssuerIsDownAtStart(t *testing.T) {
	t.Parallel()
	s := doing(t)
	for name, fault := range map[string]http.HandlerFunc{"it fails": mcptest.Status(500),
		"a page of a proxy": mcptest.HTML} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newIssuer(t)
			issuer.BreakAll(fault)
			g := guardWith(t, issuer, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
			token := issuer.Token(nil)
			wantLater(t, "a token", try(t, g, token))
			wantLater(t, "a token of a key that nobody has",
				try(t, g, mcptest.NewKey("x", "ES256", 0).Sign(nil,
					claims{"iss": issuer.URL, "sub": "a", "aud": g.url, "exp": int64(1 << 32)})))
			wantStatus(t, "no token", try(t, g, ""), 401)
			wantStatus(t, "a token that is wrong whoever signed it", try(t, g, issuer.Token(claims{"aud": "other"})), 401)
			issuer.Mend()
			if err := issuer.WaitFetches(deadline(t), mcptest.EndpointJWKS, 1); err != nil {
				t.Fatal(err)
			}
			wantStatus(t, "when it is back", try(t, g, token), 200)
		})
	}
}

// TestTheIssuerGoesDown: known tokens stay valid.
func TestTheIssuerGoesDown(t *testing.T) {
	t.Parallel()
	s := doing(t)
	g := guard(t, gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	known, fresh := g.issuer.Token(nil), g.issuer.Token(claims{"sub": "bob"})
	wantStatus(t, "before", try(t, g, known), 200)
	g.issuer.BreakAll(mcptest.Status(502))
	wantStatus(t, "a token that was seen", try(t, g, known), 200)
	wantStatus(t, "one that was not, of a known key", try(t, g, fresh), 200)
	g.issuer.AddKey("ES256")
	unknown := g.issuer.Token(nil)
	wantLater(t, "a token of an unknown key", try(t, g, unknown))
	wantStatus(t, "a known key, after that", try(t, g, known), 200)
	failed := g.issuer.Fetches(mcptest.EndpointJWKS)
	g.issuer.Mend()
	if err := g.issuer.WaitFetches(deadline(t), mcptest.EndpointJWKS, failed+1); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "the new key, when it is back", try(t, g, unknown), 200)
}

// TestOpaqueTokens: only the issuer that is asked decides about them.
func TestOpaqueTokens(t *testing.T) {
	t.Parallel()
	s := doing(t)
	issuer, other := newIssuer(t), newIssuer(t)
	g := guardWith(t, issuer, gateway.Config{
		Auth: auth.Config{Issuers: []auth.Issuer{{URL: other.URL}, {URL: issuer.URL, Introspection: &auth.Introspection{
			ClientID: issuer.ClientID, ClientSecret: mcp.Secret(issuer.ClientSecret),
		}}}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}},
	})
	good, revoked := issuer.Opaque(nil), issuer.Opaque(nil)
	issuer.Revoke(revoked)
	for _, c := range []struct {
		name, token string
		want        int
		text        string
	}{
		{"active", good, 200, ""},
		{"not active", revoked, 401, "the token is not active"},
		{"of nobody", "made-up", 401, "the token is not active"},
		{"for another audience", issuer.Opaque(claims{"aud": "https://other.example"}), 401,
			"the token is for another audience"},
		{"for no audience", issuer.Opaque(claims{"aud": nil}), 401, "the token does not say whom it is for"},
		{"expired", issuer.Opaque(claims{"exp": 1}), 401, "the token has expired"},
		{"of another issuer", issuer.Opaque(claims{"iss": other.URL}), 401,
			"the token is from an issuer that is not accepted"},
	} {
		x := try(t, g, c.token)
		if challenge := x.Header.Get("Www-Authenticate"); x.Status != c.want || !strings.Contains(challenge, c.text) {
			t.Errorf("%s: %d %s, want %d %s", c.name, x.Status, challenge, c.want, c.text)
		}
		wantStatus(t, c.name+", again", try(t, g, c.token), c.want)
	}
	jwt := issuer.Token(nil)
	wantStatus(t, "a JWT of the same issuer", try(t, g, jwt), 200)
	for name, fault := range map[string]http.HandlerFunc{
		"fails": mcptest.Status(500), "refuses us": mcptest.Status(401), "says nothing": mcptest.Status(200),
		"says too much": mcptest.Huge(10 << 20),
	} {
		issuer.Break(mcptest.EndpointIntrospect, fault)
		wantLater(t, "the issuer "+name, try(t, g, issuer.Opaque(nil)))
	}
	wantStatus(t, "a token that it said yes to", try(t, g, good), 200)
	issuer.Mend()
	wantStatus(t, "a new one, when it is back", try(t, g, issuer.Opaque(nil)), 200)
	asked := issuer.Introspected()
	if n := strings.Count(strings.Join(asked, " ")+" ", good+" "); n != 1 {
		t.Errorf("it was asked %d times about a token that is good", n)
	}
	if slices.Contains(asked, jwt) {
		t.Error("it was asked about a JWT")
	}
	if n := other.Fetches(mcptest.EndpointIntrospect); n > 0 {
		t.Errorf("another issuer was asked %d times", n)
	}
}

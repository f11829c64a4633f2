package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// Whatever the issuer serves in place of keys, the last good ones stay, and
// the status says what is wrong.
func TestBadKeySets(t *testing.T) {
	manyKeys := `{"keys":[` + strings.Repeat(`{"kty":"oct"},`, 5000) + `{}]}`
	tests := []struct {
		name   string
		breaks func(*mcptest.Issuer)
		reason string
	}{
		{"64 MiB", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Huge(64<<20)) }, "too large"},
		{"5,000 keys", func(i *mcptest.Issuer) { i.SetJWKS([]byte(manyKeys)) }, "more than 100 keys"},
		{"HTML", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.HTML) }, "cannot be read"},
		{"500", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Status(500)) }, "HTTP 500"},
		{"404", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Status(404)) }, "HTTP 404"},
		{"204", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Status(204)) }, "HTTP 204"},
		{"a redirect", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Redirect(i.URL+"/jwks2")) },
			"redirects are not followed"},
		{"a gzip bomb", func(i *mcptest.Issuer) { i.Break(mcptest.EndpointJWKS, mcptest.Bomb(2<<20)) }, "too large"},
		{"no keys", func(i *mcptest.Issuer) { i.SetJWKS([]byte(`{}`)) }, "no keys"},
		{"keys that are no list", func(i *mcptest.Issuer) { i.SetJWKS([]byte(`{"keys":{}}`)) }, "no keys"},
		{"keys twice", func(i *mcptest.Issuer) { i.SetJWKS([]byte(`{"keys":[],"keys":[]}`)) }, "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			issuer := newIssuer(t, mcptest.IssuerOptions{})
			g := newGate(t, nil, issuer)
			g.bearer(issuer.Token(nil)).expect(t, 200)
			tt.breaks(issuer)
			// An unknown key has the set fetched. Whether there is such a key now cannot
			// be told.
			g.bearer(forged(issuer, 1)[0]).expect(t, 503)
			if n := issuer.Fetches(mcptest.EndpointJWKS); n != 2 {
				t.Errorf("%d fetches", n)
			}
			g.bearer(issuer.Token(nil)).expect(t, 200)
			s := g.Status()[0]
			if s.State != auth.StateDegraded || !strings.Contains(s.Reason, tt.reason) || s.Keys != 1 || s.Failures == 0 {
				t.Errorf("got status %+v, want a reason with %q", s, tt.reason)
			}
			if ok, reason := g.Ready(); !ok || !strings.Contains(reason, issuer.URL) {
				t.Errorf("ready: %t, %q", ok, reason)
			}
		})
	}
}

// While the issuer hangs, known keys work at once; a token that needs it waits no
// longer than the time limit and is answered with 503. In a bubble of synctest.
func TestIssuerHangs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		good := issuer.Token(claims{"exp": time.Now().Add(time.Hour).Unix()})
		g.bearer(good).expect(t, 200)
		issuer.BreakAll(mcptest.Hang)
		start := time.Now()
		var all sync.WaitGroup
		for _, token := range forged(issuer, 50) {
			all.Go(func() { g.bearer(token).expect(t, 503) })
		}
		synctest.Wait()
		g.bearer(good).expect(t, 200)
		g.bearer(issuer.Token(nil)).expect(t, 200) // verified anew, by a known key
		if took := time.Since(start); took != 0 {
			t.Errorf("good tokens had to wait %s", took)
		}
		all.Wait()
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("the others waited %s", took)
		}
		// Not every request waits anew.
		start = time.Now()
		g.bearer(forged(issuer, 1)[0]).expect(t, 503)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the next one waited %s", took)
		}
		issuer.Mend()
		time.Sleep(2 * time.Minute)
		g.bearer(good).expect(t, 200)
		if s := g.Status()[0]; s.State != auth.StateReady {
			t.Errorf("got status %+v", s)
		}
	})
}

// An issuer that is down at the start keeps nothing from starting; tokens are
// answered with 503 until it is there, and it is tried again in growing steps.
func TestIssuerIsDownAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		issuer.BreakAll(mcptest.Status(500))
		g := newBubbleGate(t, nil, issuer)
		g.bearer(issuer.Token(nil)).expect(t, 503)
		if ok, reason := g.Ready(); ok || !strings.Contains(reason, "issuer https://login.example: ") ||
			!strings.Contains(reason, "HTTP 500") {
			t.Errorf("ready: %t, %q", ok, reason)
		}
		// What is wrong whatever the keys are is still the token's fault.
		g.bearer(issuer.Token(claims{"aud": "other"})).expect(t, 401, invalidToken)
		g.call().expect(t, 401)
		time.Sleep(10 * time.Minute)
		if n := issuer.Fetches(mcptest.EndpointOpenID); n < 13 || n > 30 {
			t.Errorf("%d tries in 10 min", n)
		}
		before := issuer.Fetches(mcptest.EndpointOpenID)
		for range 100 {
			g.bearer(issuer.Token(nil)).expect(t, 503)
		}
		if n := issuer.Fetches(mcptest.EndpointOpenID); n != before {
			t.Errorf("requests made %d tries", n-before)
		}
		issuer.Mend()
		time.Sleep(time.Minute)
		g.bearer(issuer.Token(nil)).expect(t, 200)
		if ok, reason := g.Ready(); !ok || reason != "" {
			t.Errorf("ready: %t, %q", ok, reason)
		}
		// The steps begin anew with the next failure.
		issuer.Break(mcptest.EndpointJWKS, mcptest.Status(500))
		time.Sleep(time.Until(g.Status()[0].Fetched.Add(10 * time.Minute)))
		synctest.Wait()
		before = issuer.Fetches(mcptest.EndpointJWKS)
		time.Sleep(10 * time.Second)
		if n := issuer.Fetches(mcptest.EndpointJWKS) - before; n < 2 {
			t.Errorf("%d tries in the first 10 s", n)
		}
	})
}

// Of requests that wait for keys there are 1,000 at a time; one more is answered
// at once. In a bubble of synctest.
func TestRequestsThatWaitForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		issuer.BreakAll(mcptest.Hang)
		g := newBubbleGate(t, nil, issuer)
		token := issuer.Token(nil)
		start := time.Now()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { g.bearer(token).expect(t, 503) })
		}
		synctest.Wait()
		g.bearer(token).expect(t, 503)
		if took := time.Since(start); took != 0 {
			t.Errorf("one more waited %s", took)
		}
		all.Wait()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the others waited %s", took)
		}
		issuer.Mend()
		time.Sleep(time.Minute)
		g.bearer(token).expect(t, 200)
	})
}

// The metadata are read anew from time to time: keys may move. In a bubble of synctest.
func TestKeysMove(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		time.Sleep(59 * time.Minute)
		if n := issuer.Fetches(mcptest.EndpointOpenID); n != 1 {
			t.Errorf("the metadata were read %d times in an hour", n)
		}
		issuer.SetMetadata("jwks_uri", issuer.URL+"/keys2")
		issuer.Handle("/keys2", func(w http.ResponseWriter, _ *http.Request) { w.Write(issuer.JWKS()) })
		issuer.Break(mcptest.EndpointJWKS, mcptest.Body("application/json", `{"keys":[]}`))
		time.Sleep(2 * time.Minute)
		g.bearer(issuer.Token(nil)).expect(t, 200)
		if n := issuer.Fetches("/keys2"); n != 1 {
			t.Errorf("the keys were fetched from their new place %d times", n)
		}
	})
}

// One of two issuers is enough to be ready, and the other's tokens alone are
// answered with 503.
func TestOneIssuerOfTwo(t *testing.T) {
	up, down := newIssuer(t, mcptest.IssuerOptions{}), newIssuer(t, mcptest.IssuerOptions{})
	down.BreakAll(mcptest.Status(503))
	g := newGate(t, nil, up, down)
	g.bearer(up.Token(nil)).expect(t, 200)
	g.bearer(down.Token(nil)).expect(t, 503)
	if ok, reason := g.Ready(); !ok || !strings.Contains(reason, down.URL) || strings.Contains(reason, up.URL) {
		t.Errorf("ready: %t, %q", ok, reason)
	}
}

// Keys of an issuer that is gone work for max_stale. In a bubble of synctest.
func TestKeysOfAGoneIssuer(t *testing.T) {
	for _, maxStale := range []time.Duration{0, time.Hour} {
		t.Run(maxStale.String(), func(t *testing.T) {
			bubble(t, func(c *auth.Config) { c.MaxStale = maxStale }, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
				want := maxStale
				if want == 0 {
					want = 24 * time.Hour
				}
				issuer.BreakAll(mcptest.Status(502))
				time.Sleep(want - time.Second)
				g.bearer(issuer.Token(nil)).expect(t, 200)
				if s := g.Status()[0]; s.State != auth.StateDegraded {
					t.Errorf("got status %+v", s)
				}
				time.Sleep(time.Second)
				g.bearer(issuer.Token(nil)).expect(t, 503)
				if s := g.Status()[0]; s.State != auth.StateDown {
					t.Errorf("got status %+v", s)
				}
				issuer.Mend()
				time.Sleep(time.Minute)
				g.bearer(issuer.Token(nil)).expect(t, 200)
			})
		})
	}
}

// A key that is not there is the token's fault only when the issuer was asked: with
// an issuer that fails it cannot be told. In a bubble of synctest.
func TestUnknownKeyOfAFailingIssuer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		tokens := forged(issuer, 3)
		g.bearer(tokens[0]).expect(t, 401)
		issuer.BreakAll(mcptest.Status(500))
		time.Sleep(time.Minute)
		g.bearer(tokens[1]).expect(t, 503)
		g.bearer(tokens[2]).expect(t, 503) // and not asked about again
		if n := issuer.Fetches(mcptest.EndpointJWKS); n != 3 {
			t.Errorf("%d fetches", n)
		}
	})
}

// A request that waits for keys does not wait for ever: not when nobody fetches them,
// not when its client has gone, and not when Run ends.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		issuer.BreakAll(mcptest.Hang)
		cfg := auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}}
		a, err := auth.New(cfg, auth.Deps{PublicURL: publicURL,
			NewClient: func([]string) (auth.Client, error) { return direct{issuer}, nil }})
		if err != nil {
			t.Fatal(err)
		}
		g := &gate{Auth: a}
		g.handler = a.Require(g)
		start := time.Now()
		g.bearer(issuer.Token(nil)).expect(t, 503)
		if took := time.Since(start); took == 0 || took > 15*time.Second {
			t.Errorf("nobody fetches: waited %s", took)
		}

		waiting := func(r *http.Request) (ended func() bool) {
			r.Header.Set("Authorization", "Bearer "+issuer.Token(nil))
			done := false
			go func() {
				g.do(r).expect(t, 503)
				done = true
			}()
			synctest.Wait()
			if done {
				t.Error("the request did not wait")
			}
			return func() bool {
				synctest.Wait()
				return done
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := waiting(httptest.NewRequestWithContext(ctx, http.MethodPost, publicURL, nil))
		cancel()
		if !ended() {
			t.Error("the client has gone, and the request still waits")
		}
		running, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- a.Run(running) }()
		ended = waiting(httptest.NewRequest(http.MethodPost, publicURL, nil))
		stop()
		if !ended() {
			t.Error("Run has ended, and the request still waits")
		}
		if err := <-ran; err != nil {
			t.Error(err)
		}
		start = time.Now()
		g.bearer(issuer.Token(nil)).expect(t, 503)

		issuer.Mend()
		running, stop = context.WithCancel(t.Context())
		if a, err = auth.New(cfg, auth.Deps{PublicURL: publicURL,
			NewClient: func([]string) (auth.Client, error) { return direct{issuer}, nil }}); err != nil {
			t.Fatal(err)
		}
		go func() { ran <- a.Run(running) }()
		synctest.Wait()
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		g = &gate{Auth: a, handler: a.Require(g)}
		g.bearer(issuer.Token(nil)).expect(t, 200) // what is known stays
		g.bearer(forged(issuer, 1)[0]).expect(t, 503)
		if took := time.Since(start); took != 0 {
			t.Errorf("after Run requests waited %s", took)
		}
	})
}

package auth_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// bubble runs a test with an issuer and a gate that has its keys, without a network and
// with time that the test moves.
func bubble(t *testing.T, change func(*auth.Config), fn func(*testing.T, *mcptest.Issuer, *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
		g := newBubbleGate(t, change, issuer)
		synctest.Wait()
		fn(t, issuer, g)
	})
}

// forged are n tokens of a key that the issuer does not have, each under another name.
func forged(issuer *mcptest.Issuer, n int) []string {
	thief := mcptest.NewKey("", "ES256", 0)
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = thief.With(fmt.Sprint("thief-", i), "ES256").Sign(nil,
			claims{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9})
	}
	return tokens
}

// unjudged wants an answer to say that nothing can be said yet, and returns when to ask again.
func unjudged(t *testing.T, a answer) time.Duration {
	t.Helper()
	a.expect(t, 503)
	seconds, err := strconv.Atoi(a.Header().Get("Retry-After"))
	if err != nil || seconds < 1 {
		t.Errorf("Retry-After: %q", a.Header()["Retry-After"])
	}
	return time.Duration(seconds) * time.Second
}

// Made-up keys make the gate ask once in 30 s, and good tokens do not feel it. In a
// bubble of synctest.
func TestUnknownKeys(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		flood := func(tokens []string, want ...int) {
			t.Helper()
			var all sync.WaitGroup
			for _, token := range tokens {
				all.Go(func() {
					if got := g.bearer(token).Code; !slices.Contains(want, got) {
						t.Errorf("got %d, want one of %d", got, want)
					}
				})
			}
			all.Wait()
			g.bearer(issuer.Token(nil)).expect(t, 200)
		}
		fetched := func(when string, want int) {
			t.Helper()
			if n := issuer.Fetches(mcptest.EndpointJWKS); n != want {
				t.Errorf("%s: %d fetches", when, n)
			}
		}
		tokens := forged(issuer, 300)
		start := time.Now()
		flood(tokens[:100], 401, 503) // those that came with the fetch it cannot have told of
		flood(tokens[100:200], 503)
		fetched("at the start and for 200 keys", 2)
		if took := time.Since(start); took != 0 {
			t.Errorf("the flood had to wait %s", took)
		}
		time.Sleep(29 * time.Second)
		flood(tokens[200:250], 503)
		fetched("after 29 s", 2)
		time.Sleep(time.Second)
		flood(tokens[250:], 401, 503)
		fetched("after 30 s", 3)
		flood(tokens[:250], 401)
		fetched("for keys that are known to be unknown", 3)
		if s := g.Status()[0]; s.UnknownKeys != 550 || s.Fetches != 3 {
			t.Errorf("counted %d unknown keys and %d fetches", s.UnknownKeys, s.Fetches)
		}
	})
}

// What is remembered of unknown keys is bounded, and the flood does not keep a
// new key away. In a bubble of synctest.
func TestFloodAndRotation(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		for i, token := range forged(issuer, 1500) {
			if want := []int{401, 503}[min(i, 1)]; g.bearer(token).Code != want {
				t.Errorf("token %d: want %d", i, want)
			}
		}
		issuer.AddKey("ES256")
		time.Sleep(time.Second)
		wait := unjudged(t, g.bearer(issuer.Token(nil))) // the price of the flood
		if wait > 30*time.Second {
			t.Errorf("the new key has to wait %s", wait)
		}
		time.Sleep(wait)
		g.bearer(issuer.Token(nil)).expect(t, 200)
	})
}

// A key that the issuer has begun to use just after somebody made one up is not refused: its
// tokens are told to wait, and where several name it the issuer is asked within seconds. In a
// bubble of synctest.
func TestNewKeyAfterAMadeUpOne(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tokens  int
		fetches int // at the end
		within  time.Duration
	}{
		{"one token", 1, 3, 30 * time.Second},
		{"several", 4, 3, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
				g.bearer(forged(issuer, 1)[0]).expect(t, 401, invalidToken)
				time.Sleep(time.Second)
				issuer.AddKey("ES256")
				var wait time.Duration
				var tokens []string
				for range tt.tokens {
					tokens = append(tokens, issuer.Token(nil))
					wait = unjudged(t, g.bearer(tokens[len(tokens)-1]))
					unjudged(t, g.bearer(tokens[0])) // again: no other token
				}
				if wait == 0 || wait > tt.within {
					t.Errorf("told to wait %s, want at most %s", wait, tt.within)
				}
				time.Sleep(wait)
				for _, token := range tokens {
					g.bearer(token).expect(t, 200)
				}
				if n := issuer.Fetches(mcptest.EndpointJWKS); n != tt.fetches {
					t.Errorf("%d fetches", n)
				}
			})
		})
	}
}

// Who makes up tokens of one key has the issuer asked once in five seconds at most, and is
// then told that there is no such key. In a bubble of synctest.
func TestMadeUpTokensOfOneKey(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		g.bearer(issuer.Token(nil)).expect(t, 200)
		before := issuer.Fetches(mcptest.EndpointJWKS)
		thief := mcptest.NewKey("", "ES256", 0)
		for second := range 60 {
			for i := range 10 {
				token := thief.With(fmt.Sprint("thief-", second/3), "ES256").Sign(nil,
					claims{"iss": issuer.URL, "sub": fmt.Sprint(second, i), "aud": publicURL, "exp": 9e9})
				if status := g.bearer(token).Code; status != 401 && status != 503 {
					t.Fatalf("answered with %d", status)
				}
			}
			time.Sleep(time.Second)
		}
		if n := issuer.Fetches(mcptest.EndpointJWKS) - before; n > 13 {
			t.Errorf("%d fetches in a minute", n)
		}
	})
}

// A new key works with the first token that it has signed, after one fetch. In a bubble
// of synctest.
func TestRotatedKeys(t *testing.T) {
	bubble(t, nil, func(t *testing.T, issuer *mcptest.Issuer, g *gate) {
		old := issuer.Token(nil)
		g.bearer(old).expect(t, 200)
		issuer.Publish(mcptest.NewKey("next", "ES256", 0))
		start := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { g.bearer(issuer.Token(nil)).expect(t, 200) })
		}
		all.Wait()
		if took := time.Since(start); took != 0 { // beside what the issuer takes
			t.Errorf("it took %s", took)
		}
		g.bearer(old).expect(t, 200)
		if n := issuer.Fetches(mcptest.EndpointJWKS); n != 2 {
			t.Errorf("%d fetches", n)
		}
		if n := issuer.Fetches(mcptest.EndpointOpenID); n != 1 {
			t.Errorf("the metadata were fetched %d times", n)
		}
	})
}

// A key that the issuer withdraws dies with the next fetch in the background, and
// so do the tokens that it signed, remembered or not.
func TestWithdrawnKeys(t *testing.T) {
	tests := []struct {
		cacheControl string
		after        time.Duration
	}{
		{"", 10 * time.Minute},
		{"public", 10 * time.Minute},
		{"max-age=120", 2 * time.Minute},
		{"public, Max-Age=1800, must-revalidate", 30 * time.Minute},
		{"max-age=1", time.Minute},
		{"max-age=0", time.Minute},
		{"no-store", time.Minute},
		{"max-age=999999", time.Hour},
		{"max-age=99999999999999999999", 10 * time.Minute},
		{"max-age=soon", 10 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.cacheControl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				issuer := newIssuer(t, mcptest.IssuerOptions{URL: "https://login.example"})
				issuer.SetCacheControl(tt.cacheControl)
				g := newBubbleGate(t, nil, issuer)
				token := issuer.Token(claims{"exp": time.Now().Add(24 * time.Hour).Unix()})
				fresh := issuer.Token(claims{"exp": time.Now().Add(24 * time.Hour).Unix(), "sub": "bob"})
				g.bearer(token).expect(t, 200)
				stolen := issuer.Key()
				issuer.AddKey("ES256")
				issuer.Withdraw(stolen)
				time.Sleep(tt.after - time.Second)
				g.bearer(token).expect(t, 200)
				if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
					t.Errorf("%d fetches", n)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				g.bearer(token).expect(t, 401, invalidToken)
				g.bearer(fresh).expect(t, 401, invalidToken)
				g.bearer(issuer.Token(nil)).expect(t, 200)
			})
		})
	}
}

// Of keys with one name, four that fit the algorithm are tried.
func TestKeysOfOneName(t *testing.T) {
	issuer := newIssuer(t, mcptest.IssuerOptions{})
	same := []*mcptest.Key{}
	for range 6 {
		same = append(same, mcptest.NewKey("same", "ES256", 0))
	}
	other := mcptest.NewKey("same", "EdDSA", 0)
	issuer.Publish(append(same, other)...)
	g := newGate(t, nil, issuer)
	body := claims{"iss": issuer.URL, "sub": "a", "aud": publicURL, "exp": 9e9}
	for i, k := range same {
		want := 200
		if i >= 4 {
			want = 401
		}
		g.bearer(k.Sign(nil, body)).expect(t, want)
	}
	g.bearer(other.Sign(nil, body)).expect(t, 200)
	g.bearer(other.Sign(claims{"kid": nil}, body)).expect(t, 200)
	g.bearer(issuer.Sign(claims{"kid": ""}, nil)).expect(t, 401)
	g.bearer(issuer.Sign(claims{"kid": strings.Repeat("x", 600)}, nil)).expect(t, 401)
	if n := issuer.Fetches(mcptest.EndpointJWKS); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

package vault

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestVault: what a vault promises, in memory and in Redis.
func TestVault(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	for _, name := range []string{"memory", "redis"} {
		t.Run(name, func(t *testing.T) {
			var v, other *Vault
			var log fmt.Stringer
			if name == "memory" {
				v, log = s.open(t, Config{}, nil)
				other = v
			} else {
				v, log = s.open(t, localKeys(keyA), redis)
				other, _ = s.open(t, localKeys(keyA), redis)
			}
			wantState(t, v, alice, "crm", StateNeedsSignIn)
			if _, _, err := v.Token(t.Context(), alice, "crm", serverURL); !errors.Is(err, ErrNeedsSignIn) {
				t.Errorf("got %v", err)
			}
			keep(t, v, alice, "crm", s.grant(name+"-alice", time.Hour))
			keep(t, v, bob, "crm", s.grant(name+"-bob", time.Hour))
			wantToken(t, v, alice, "crm", accessToken(name+"-alice", 0))
			wantToken(t, other, alice, "crm", accessToken(name+"-alice", 0))
			wantToken(t, other, bob, "crm", accessToken(name+"-bob", 0))
			wantState(t, v, alice, "wiki", StateNeedsSignIn)
			at := wantState(t, other, alice, "crm", StateOK)
			if at.Since.IsZero() || at.AuthServer != s.URL || at.Scope != "read" {
				t.Errorf("got %+v", at)
			}
			if err := v.Forget(t.Context(), alice, "crm"); err != nil {
				t.Fatal(err)
			}
			wantState(t, other, alice, "crm", StateNeedsSignIn)
			wantState(t, other, bob, "crm", StateOK)
			if _, _, err := v.Token(t.Context(), alice, "crm", serverURL); !errors.Is(err, ErrNeedsSignIn) {
				t.Errorf("got %v", err)
			}
			if err := v.Forget(t.Context(), alice, "crm"); err != nil {
				t.Error("there is nothing to forget, which is no error:", err)
			}
			v.Close() // waits for the revocation
			s.mu.Lock()
			defer s.mu.Unlock()
			want := []string{"refresh_token " + refreshToken(name+"-alice", 0), "access_token " + accessToken(name+"-alice", 0)}
			if got := s.revoked; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
				t.Errorf("revoked %q, want %q", got, want)
			}
			s.revoked = nil
			if strings.Contains(log.String(), "access.") || strings.Contains(log.String(), "refresh.") {
				t.Errorf("the log has a token: %s", log)
			}
		})
	}
}

// TestTokenOfAnotherAddress: a server that gets another address does not get the tokens that users
// have at the one before.
func TestTokenOfAnotherAddress(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	if got, _, err := v.Token(t.Context(), alice, "crm", "https://evil.example.com/mcp"); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %q %v", got, err)
	}
	moved := s.grant("alice", time.Hour)
	moved.URL = "https://old.example.com/mcp"
	keep(t, v, bob, "crm", moved)
	if got := wantState(t, v, bob, "crm", StateNeedsSignIn); !strings.Contains(got.Why, "another address") {
		t.Errorf("got %+v", got)
	}
}

func TestKeepRefuses(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	for name, change := range map[string]func(*Grant){
		"no access token":                   func(g *Grant) { g.AccessToken = "" },
		"a large one":                       func(g *Grant) { g.AccessToken = strings.Repeat("x", maxToken+1) },
		"a large refresh token":             func(g *Grant) { g.RefreshToken = strings.Repeat("x", maxToken+1) },
		"no server":                         func(g *Grant) { g.URL = "" },
		"a refresh token without endpoint":  func(g *Grant) { g.TokenURL = "" },
		"a refresh token without client id": func(g *Grant) { g.ClientID = "" },
		"no URL":                            func(g *Grant) { g.RevokeURL = ":x" },
	} {
		g := s.grant("alice", time.Hour)
		change(&g)
		if err := v.Keep(t.Context(), alice, "crm", g); err == nil {
			t.Errorf("%s: is kept", name)
		}
	}
	large := s.grant("alice", time.Hour)
	large.AccessToken, large.RefreshToken = strings.Repeat("a", maxToken), strings.Repeat("r", maxToken)
	keep(t, v, alice, "crm", large)
	wantToken(t, v, alice, "crm", large.AccessToken)
	if text := fmt.Sprintf("%v %+v %s", large, large, large.ClientSecret); strings.Contains(text, "aaa") ||
		strings.Contains(text, "rrr") || strings.Contains(text, clientSecret) {
		t.Error("a grant prints its tokens")
	}
}

// TestStates: every state, and what Token says about each.
func TestStates(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	sign := func(server, state string) {
		t.Helper()
		_, _, err := v.Token(t.Context(), alice, server, serverURL)
		if in, ok := errors.AsType[*SignInError](err); !ok || in.State != state {
			t.Errorf("%s: got %v, want %s", server, err, state)
		}
	}
	keep(t, v, alice, "ok", s.grant("ok", time.Hour))
	wantState(t, v, alice, "ok", StateOK)

	forever := s.grant("forever", time.Hour)
	forever.Expires, forever.RefreshToken = time.Time{}, ""
	keep(t, v, alice, "forever", forever)
	wantState(t, v, alice, "forever", StateOK)
	wantToken(t, v, alice, "forever", forever.AccessToken)

	short := s.grant("short", -time.Second)
	short.RefreshToken = ""
	keep(t, v, alice, "expired", short)
	sign("expired", StateExpired)
	wantState(t, v, alice, "expired", StateExpired)

	keep(t, v, alice, "revoked", s.grant("revoked", -time.Second))
	s.set(func() { s.latest["revoked"] = 7 })
	sign("revoked", StateRevoked)
	wantState(t, v, alice, "revoked", StateRevoked)
	sign("revoked", StateRevoked) // without asking again
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}

	keep(t, v, alice, "error", s.grant("error", -time.Second))
	s.set(func() {
		s.answer = func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusUnauthorized, "invalid_client") }
	})
	for range 2 {
		_, _, err := v.Token(t.Context(), alice, "error", serverURL)
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Why, "refuses the gateway (invalid_client)") {
			t.Errorf("got %v", err)
		}
	}
	if got := wantState(t, v, alice, "error", StateError); !strings.Contains(got.Why, "invalid_client") {
		t.Errorf("got %+v", got)
	}
	if n := len(s.asked()); n != 2 {
		t.Errorf("asked %d times: there is a pause after a failure", n)
	}
	if got := v.Counts(); got["ok"][StateOK] != 1 || got["revoked"][StateRevoked] != 1 || got["error"][StateError] != 1 ||
		got["expired"][StateExpired] != 1 {
		t.Errorf("got %v", got)
	}
	s.set(func() { s.answer = nil })
	keep(t, v, alice, "error", s.grant("error", time.Hour)) // a sign-in ends any of them
	wantState(t, v, alice, "error", StateOK)
}

// TestRefused: a token that the server refuses is refreshed once; if the next one is refused, too,
// the user has to sign in again.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	refused := func(token string, want bool) error {
		t.Helper()
		again, err := v.Refused(t.Context(), alice, "crm", newKnown(nil, record{Grant: Grant{AccessToken: token}}).stamp)
		if again != want {
			t.Errorf("%s: again is %v, %v", token, again, err)
		}
		return err
	}
	if err := refused("one of before", true); err != nil {
		t.Error(err)
	}
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	if err := refused(accessToken("alice", 0), true); err != nil {
		t.Error(err)
	}
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	if err := refused(accessToken("alice", 0), true); err != nil { // a call that took longer
		t.Error(err)
	}
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	if err := refused(accessToken("alice", 1), false); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %v", err)
	}
	wantState(t, v, alice, "crm", StateNeedsSignIn)
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	once := s.grant("once", time.Hour)
	once.RefreshToken = ""
	keep(t, v, alice, "crm", once)
	if err := refused(once.AccessToken, false); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %v", err)
	}
	wantState(t, v, alice, "crm", StateNeedsSignIn)
}

// TestRefusedAndGivenAgain: an authorization server whose refresh gives the very token that a server
// has refused is not asked for each call.
func TestRefusedAndGivenAgain(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	s.set(func() {
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, accessToken("alice", 0))
		}
	})
	_, stamp, err := v.Token(t.Context(), alice, "crm", serverURL)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := v.Refused(t.Context(), alice, "crm", stamp); !again || err != nil {
		t.Fatalf("got %v %v", again, err)
	}
	for range 3 {
		wantToken(t, v, alice, "crm", accessToken("alice", 0))
	}
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if again, err := v.Refused(t.Context(), alice, "crm", stamp); again || !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %v %v", again, err)
	}
}

// TestWants: scopes that a server asks for are kept for the next sign-in, and the account stays
// good for everything else.
func TestWants(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	v, _ := s.open(t, localKeys(keyA), redis)
	other, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	for _, scopes := range [][]string{{"write", "write"}, {"admin", strings.Repeat("x", maxToken)}} {
		err := v.Wants(t.Context(), alice, "crm", scopes)
		if in, ok := errors.AsType[*SignInError](err); !ok || in.Scopes[len(in.Scopes)-1] != scopes[0] {
			t.Errorf("got %v", err)
		}
	}
	at := wantState(t, other, alice, "crm", StateOK)
	if strings.Join(at.Wanted, " ") != "write admin" {
		t.Errorf("wanted %q", at.Wanted)
	}
	wantToken(t, other, alice, "crm", accessToken("alice", 0))
	for i := range 2 * mostWanted {
		_ = v.Wants(t.Context(), alice, "crm", []string{fmt.Sprint(i)})
	}
	if at := wantState(t, other, alice, "crm", StateOK); len(at.Wanted) != mostWanted {
		t.Errorf("%d scopes are kept", len(at.Wanted))
	}
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	if at := wantState(t, v, alice, "crm", StateOK); len(at.Wanted) > 0 {
		t.Errorf("wanted %q after the sign-in", at.Wanted)
	}
}

// TestUsed: the last use is written, for all replicas, and at most once a minute.
func TestUsed(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	v, _ := s.open(t, localKeys(keyA), redis)
	other, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	if at := wantState(t, other, alice, "crm", StateOK); !at.Used.IsZero() {
		t.Errorf("used %s before it was", at.Used)
	}
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	a := v.account(place{alice, "crm"})
	noted := a.noted
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	if a.noted != noted {
		t.Error("each use is written")
	}
	v.mu.Lock()
	v.closed = true // nothing more begins
	v.mu.Unlock()
	v.wg.Wait()
	if at := wantState(t, other, alice, "crm", StateOK); time.Since(at.Used) > time.Hour {
		t.Errorf("used %s", at.Used)
	}
}

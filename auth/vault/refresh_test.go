package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// due makes a token due to be refreshed, in the store of this vault.
func due(t *testing.T, v *Vault, owner Owner, server string) {
	t.Helper()
	a := v.account(place{owner, server})
	k, err := v.read(t.Context(), a)
	if err != nil || k == nil {
		t.Fatal(k, err)
	}
	if _, done, err := v.change(t.Context(), a, k, func(r *record) { r.Renew = time.Now().Add(-time.Second) }); !done ||
		err != nil {
		t.Fatal(done, err)
	}
}

// TestRefreshRequest: the request has the resource and the proof of the client, and nothing
// else.
func TestRefreshRequest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Grant)
		want   map[string]string
	}{
		"a secret": {func(*Grant) {},
			map[string]string{"basic": "gatehouse 100%25+client%2Bsecret%3A%26", "resource": serverURL}},
		"posted": {func(g *Grant) { g.ClientAuth = AuthPost },
			map[string]string{"client_id": "gatehouse", "client_secret": clientSecret, "resource": serverURL}},
		"public": {func(g *Grant) { g.ClientSecret = "" },
			map[string]string{"client_id": "gatehouse", "resource": serverURL}},
		"no resource": {func(g *Grant) { g.ClientSecret, g.Resource = "", "" },
			map[string]string{"client_id": "gatehouse"}},
		"public by word": {func(g *Grant) { g.ClientSecret, g.ClientAuth = "", AuthNone },
			map[string]string{"client_id": "gatehouse", "resource": serverURL}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAuthServer(t)
			v, _ := s.open(t, Config{}, nil)
			g := s.grant("alice", -time.Second)
			tt.change(&g)
			keep(t, v, alice, "crm", g)
			wantToken(t, v, alice, "crm", accessToken("alice", 1))
			got := s.asked()
			tt.want["grant_type"], tt.want["refresh_token"] = "refresh_token", refreshToken("alice", 0)
			if len(got) != 1 || len(got[0]) != len(tt.want) {
				t.Fatalf("got %v, want %v", got, tt.want)
			}
			for name, want := range tt.want {
				if got[0][name] != want {
					t.Errorf("%s: got %q, want %q", name, got[0][name], want)
				}
			}
		})
	}
}

// TestRefreshAhead: no call waits for a refresh as long as the token is good, and only one is made.
func TestRefreshAhead(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	due(t, v, alice, "crm")
	asked, answers := make(chan struct{}), make(chan struct{})
	s.set(func() { s.hook = func(*http.Request) { close(asked); <-answers } })
	for range 3 {
		wantToken(t, v, alice, "crm", accessToken("alice", 0))
	}
	<-asked
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	a := v.account(place{alice, "crm"})
	a.mu.Lock()
	f := a.flight
	a.mu.Unlock()
	close(answers)
	<-f.done
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestAnswerTooLargeToKeep: what the store would never take is refused, so nobody tries for ever to save
// it.
func TestAnswerTooLargeToKeep(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]map[string]any{
		"scope":         {"scope": strings.Repeat("read ", 40<<10)},
		"refresh token": {"refresh_token": strings.Repeat("\x01", maxToken)},
	} {
		s := newAuthServer(t)
		v, log := s.open(t, Config{}, nil)
		keep(t, v, alice, "crm", s.grant("alice", -time.Second))
		s.set(func() {
			s.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				answer["access_token"], answer["token_type"] = "new", "Bearer"
				_ = json.NewEncoder(w).Encode(answer)
			}
		})
		if token, _, err := v.Token(t.Context(), alice, "crm", serverURL); err == nil ||
			!strings.Contains(err.Error(), "not a usable token") {
			t.Errorf("%s: got %q %v", name, token, err)
		}
		if strings.Contains(log.String(), "could not be saved") {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// TestRegistrationForgotten: where an authorization server does not know the gateway's own registration
// any more, the user signs in again; a registration of the operator is the operator's to correct.
func TestRegistrationForgotten(t *testing.T) {
	t.Parallel()
	for registered, want := range map[bool]string{true: StateRevoked, false: StateError} {
		s := newAuthServer(t)
		v, _ := s.open(t, Config{}, nil)
		g := s.grant("alice", -time.Second)
		g.Registered = registered
		keep(t, v, alice, "crm", g)
		s.set(func() {
			s.answer = func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusUnauthorized, "invalid_client") }
		})
		if _, _, err := v.Token(t.Context(), alice, "crm", serverURL); errors.Is(err, ErrNeedsSignIn) != registered {
			t.Errorf("registered %t: got %v", registered, err)
		}
		if at := wantState(t, v, alice, "crm", want); (at.Unknown == g.ClientID) != registered {
			t.Errorf("registered %t: unknown %q", registered, at.Unknown)
		}
	}
}

// TestRefreshFails: while a refresh fails for now, the old token goes on as long as it is good, with
// pauses that all replicas keep.
func TestRefreshFails(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	v, log := s.open(t, localKeys(keyA), redis)
	other, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	due(t, v, alice, "crm")
	s.set(func() {
		s.answer = func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.PostFormValue("refresh_token"), http.StatusBadGateway)
		}
	})
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	a := v.account(place{alice, "crm"})
	a.mu.Lock()
	f := a.flight
	a.mu.Unlock()
	if f != nil {
		<-f.done
	}
	for range 3 {
		wantToken(t, v, alice, "crm", accessToken("alice", 0))
		wantToken(t, other, alice, "crm", accessToken("alice", 0))
	}
	wantState(t, other, alice, "crm", StateOK)
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if strings.Contains(log.String(), "refresh.alice") {
		t.Errorf("the log has the answer of the endpoint: %s", log)
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	var r record
	now := time.Now()
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		r.failed(now, "why", 0)
		pause, want := r.Trouble.Until.Sub(now), want*time.Second
		if pause < want*4/5 || pause > want*6/5 || r.Trouble.Failures != i+1 {
			t.Errorf("failure %d: %s, want about %s", i+1, pause, want)
		}
	}
	if r.failed(now, "why", 2*time.Minute); r.Trouble.Until != now.Add(2*time.Minute) {
		t.Errorf("Retry-After is not kept: %s", r.Trouble.Until.Sub(now))
	}
	if r.failed(now, "why", time.Hour); r.Trouble.Until != now.Add(5*time.Minute) {
		t.Errorf("Retry-After has no bound: %s", r.Trouble.Until.Sub(now))
	}
	for _, life := range []time.Duration{time.Second, time.Minute, time.Hour, 1000 * time.Hour} {
		r.Grant = Grant{RefreshToken: "x", Expires: now.Add(life)}
		r.issued(now)
		if early := r.Grant.Expires.Sub(r.Renew); early < min(life/10, mostEarly/2) || early > min(life/5, mostEarly) {
			t.Errorf("%s: refreshed %s ahead", life, early)
		}
	}
}

// TestRefreshNotSaved: the store cannot take what a refresh brought, which the old refresh token
// cannot bring again. This replica uses it and goes on until the store has it.
func TestRefreshNotSaved(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	server := redistest.Start(t)
	redis := openRedis(t, server.URL())
	v, log := s.open(t, localKeys(keyA), redis)
	other, _ := s.open(t, localKeys(keyA), openRedis(t, server.URL()))
	keep(t, v, alice, "crm", s.grant("alice", -time.Second))
	admin := server.Client()
	defer admin.Close()
	limit := func(bytes string) {
		if err := admin.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Error(err)
		}
	}
	s.set(func() { s.hook = func(*http.Request) { limit("1") } }) // full in the midst of the refresh
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	if !strings.Contains(log.String(), "could not be saved") {
		t.Errorf("nobody is told: %s", log)
	}
	if _, err := v.locks.Get(t.Context(), place{alice, "crm"}.name()); err != nil {
		t.Errorf("others may refresh with what has been used up: %v", err)
	}
	limit("0")
	v.Close() // tries once more at the latest
	wantToken(t, other, alice, "crm", accessToken("alice", 1))
	if n := len(s.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestRefreshAtTheEnd: Close does not cut off a refresh, which has used up its token.
func TestRefreshAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", -time.Second))
	closed := make(chan struct{})
	s.set(func() {
		s.hook = func(*http.Request) {
			go func() {
				v.Close()
				close(closed)
			}()
			for v.spawn(func(context.Context) {}) { // until Close has begun
				runtime.Gosched()
			}
		}
	})
	wantToken(t, v, alice, "crm", accessToken("alice", 1))
	<-closed
}

// TestSignedOutDuringRefresh: what a refresh brings for somebody who has signed out is revoked.
func TestSignedOutDuringRefresh(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	keep(t, v, alice, "crm", s.grant("alice", -time.Second))
	s.set(func() {
		s.hook = func(r *http.Request) {
			if err := v.Forget(t.Context(), alice, "crm"); err != nil {
				t.Error(err)
			}
		}
	})
	if got, _, err := v.Token(t.Context(), alice, "crm", serverURL); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("got %q %v", got, err)
	}
	wantState(t, v, alice, "crm", StateNeedsSignIn)
	v.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.revoked, "\n"); !strings.Contains(got, refreshToken("alice", 0)) ||
		!strings.Contains(got, refreshToken("alice", 1)) {
		t.Errorf("revoked %q", got)
	}
}

// TestSignedInDuringRefresh: a sign-in is not overwritten by a refresh of the one before, nor ended
// by its end.
func TestSignedInDuringRefresh(t *testing.T) {
	t.Parallel()
	for _, refuses := range []bool{false, true} {
		s := newAuthServer(t)
		v, _ := s.open(t, Config{}, nil)
		keep(t, v, alice, "crm", s.grant("before", -time.Second))
		s.set(func() {
			s.hook = func(*http.Request) {
				if err := v.Keep(t.Context(), alice, "crm", s.grant("after", time.Hour)); err != nil {
					t.Error(err)
				}
			}
			if refuses {
				s.latest["before"] = 7
			}
		})
		wantToken(t, v, alice, "crm", accessToken("after", 0))
		wantState(t, v, alice, "crm", StateOK)
	}
}

// TestRefreshUnderWay: a replica that ended in the midst of a refresh holds others up only until
// its right to refresh ends.
func TestRefreshUnderWay(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	server := redistest.Start(t)
	redis := openRedis(t, server.URL())
	v, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", -time.Second))
	if mine, err := v.locks.Add(t.Context(), place{alice, "crm"}.name(), []byte("gone"), lockLife); !mine || err != nil {
		t.Fatal(mine, err)
	}
	var wait sync.WaitGroup
	wait.Go(func() { wantToken(t, v, alice, "crm", accessToken("alice", 1)) })
	server.Advance(t, lockLife)
	wait.Wait()
}

// TestStoreAway: what is known goes on while Redis is away, and what is not known is not a sign-in
// that is missing.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	server := redistest.Start(t)
	redis := openRedis(t, server.URL())
	v, _ := s.open(t, localKeys(keyA), redis)
	keep(t, v, alice, "crm", s.grant("alice", time.Hour))
	keep(t, v, bob, "crm", s.grant("bob", -time.Second))
	server.Kill()
	a := v.account(place{alice, "crm"})
	a.mu.Lock()
	a.read = time.Now().Add(-fresh) // it would look again
	a.mu.Unlock()
	wantToken(t, v, alice, "crm", accessToken("alice", 0))
	for _, owner := range []Owner{bob, {alice.Issuer, "carol"}} {
		_, _, err := v.Token(t.Context(), owner, "crm", serverURL)
		if e, ok := errors.AsType[*Error](err); !ok || !strings.Contains(e.Why, "store of users' accounts") {
			t.Errorf("%s: got %v", owner.User, err)
		}
	}
	if _, err := v.States(t.Context(), alice, []string{"crm"}); err == nil {
		t.Error("there are states without the store")
	}
	if n := len(s.asked()); n > 0 {
		t.Errorf("a refresh was tried %d times that could not be saved", n)
	}
}

// TestManyAtOnce: an authorization server that is slow gets a bounded number of requests at a time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	v, _ := s.open(t, Config{}, nil)
	var mu sync.Mutex
	running, most := 0, 0
	full, release := make(chan struct{}), make(chan struct{})
	s.set(func() {
		s.hook = func(*http.Request) {
			mu.Lock()
			running++
			if most = max(most, running); running == mostAtOnce {
				close(full)
			}
			mu.Unlock()
			<-release
		}
	})
	var all sync.WaitGroup
	for i := range 3 * mostAtOnce {
		name := fmt.Sprint("user", i)
		keep(t, v, Owner{alice.Issuer, name}, "crm", s.grant(name, -time.Second))
		all.Go(func() { wantToken(t, v, Owner{alice.Issuer, name}, "crm", accessToken(name, 1)) })
	}
	<-full
	s.set(func() { s.hook = nil }) // for those whose turn comes now
	close(release)
	all.Wait()
	if most > mostAtOnce {
		t.Errorf("%d requests at a time", most)
	}
}

package vault

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// TestRefreshOnceForAllReplicas: many users have accounts at five servers, all their tokens end, and
// three replicas need them at the same time. Each token is refreshed once; none is lost; nobody gets
// the token of somebody else. BenchmarkRefreshOnceForAllReplicas does so with 1,000 users.
func TestRefreshOnceForAllReplicas(t *testing.T) {
	t.Parallel()
	refreshEverywhere(t, 60)
}

// TestChanged: a replica that is told of a sign-out or a sign-in elsewhere uses what holds now, also if
// it was just about to learn what held before. What it could not save yet stays until it can.
func TestChanged(t *testing.T) {
	t.Parallel()
	s := newAuthServer(t)
	redis := openRedis(t, redistest.Start(t).URL())
	here, _ := s.open(t, localKeys(keyA), redis)
	there, _ := s.open(t, localKeys(keyA), redis)
	there.Changed(alice, "crm") // of which it knows nothing
	keep(t, here, alice, "crm", s.grant("first", time.Hour))
	wantToken(t, there, alice, "crm", accessToken("first", 0))
	a := there.account(place{alice, "crm"})
	since := a.since()
	before, err := there.read(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if err := here.Forget(t.Context(), alice, "crm"); err != nil {
		t.Fatal(err)
	}
	there.Changed(alice, "crm")
	a.learn(since, before, time.Now())
	if token, _, err := there.Token(t.Context(), alice, "crm", serverURL); !errors.Is(err, ErrNeedsSignIn) {
		t.Errorf("after the sign-out: %q %v", token, err)
	}
	keep(t, here, alice, "crm", s.grant("second", time.Hour))
	wantToken(t, there, alice, "crm", accessToken("second", 0))
	keep(t, here, alice, "crm", s.grant("third", time.Hour))
	there.Changed(alice, "crm")
	wantToken(t, there, alice, "crm", accessToken("third", 0))
	k, _ := a.now(time.Now())
	a.hold(k)
	there.Changed(alice, "crm")
	if now, good := a.now(time.Now()); now != k || !good {
		t.Error("what was not saved is forgotten")
	}
}

func BenchmarkRefreshOnceForAllReplicas(b *testing.B) {
	for b.Loop() {
		refreshEverywhere(b, 1000)
	}
}

func refreshEverywhere(t testing.TB, users int) {
	const servers, replicas, workers = 5, 3, 16
	s := newAuthServer(t)
	url := redistest.Start(t).URL()
	var vaults []*Vault
	for range replicas {
		v, _ := s.open(t, localKeys(keyA), openRedis(t, url))
		vaults = append(vaults, v)
	}
	who := func(i int) (owner Owner, server, tag string) {
		owner, server = Owner{alice.Issuer, fmt.Sprint("user", i/servers)}, fmt.Sprint("server", i%servers)
		return owner, server, owner.User + "-" + server
	}
	each := func(f func(v *Vault, i int)) {
		var all sync.WaitGroup
		for _, v := range vaults {
			next := make(chan int)
			all.Go(func() {
				defer close(next)
				for i := range users * servers {
					next <- i
				}
			})
			for range workers {
				all.Go(func() {
					for i := range next {
						f(v, i)
					}
				})
			}
		}
		all.Wait()
	}
	for round := range 2 {
		if round == 0 {
			var all sync.WaitGroup
			for w := range workers {
				all.Go(func() {
					for i := w; i < users*servers; i += workers {
						owner, server, tag := who(i)
						if err := vaults[0].Keep(t.Context(), owner, server, s.grant(tag, -time.Second)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		each(func(v *Vault, i int) { // in the second round, nothing is refreshed
			owner, server, tag := who(i)
			if got, _, err := v.Token(t.Context(), owner, server, serverURL); got != accessToken(tag, 1) || err != nil {
				t.Errorf("%s: got %q %v", tag, got, err)
			}
		})
	}
	if n := len(s.asked()); n != users*servers {
		t.Errorf("%d refreshes, want %d", n, users*servers)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reused) > 0 {
		t.Errorf("%d refresh tokens came again, such as %s", len(s.reused), s.reused[0])
	}
}

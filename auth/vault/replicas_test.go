package vault

import (
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

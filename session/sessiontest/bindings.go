package sessiontest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// Bindings is what a replica has of session.RedisBindings.
type Bindings interface {
	Take(ctx context.Context, at session.Place, stale string, lease time.Duration) (session.Binding, session.Turn, error)
	Put(ctx context.Context, at session.Place, made session.Binding) (session.Binding, session.Turn, error)
	Release(ctx context.Context, at session.Place) error
	Keep(ctx context.Context, at session.Place, made session.Binding, unused, stand time.Duration, gone string) (holds, stands string, err error)
	Life(at session.Place) time.Duration
	End(ctx context.Context, at session.Place, tag string) (session.Farewell, error)
	Claim(ctx context.Context, at session.Place, what string) (bool, error)
	Self() string
}

const lease = time.Minute

// pair are two replicas, of a client whose sessions nobody uses yet.
type pair struct {
	t    *testing.T
	a, b replica
	pass func(d time.Duration)
}

// replica fails the test in place of returning errors.
type replica struct {
	t *testing.T
	Bindings
}

func (r replica) takes(at session.Place, stale string, want session.Turn, tag string) {
	r.t.Helper()
	got, turn, err := r.Take(r.t.Context(), at, stale, lease)
	if err != nil || turn != want || got.Tag != tag || tag != "" && got.Value != "value of "+tag {
		r.t.Errorf("Take but for %q: %+v %v %v, want %v %q", stale, got, turn, err, want, tag)
	}
}

func (r replica) puts(at session.Place, tag string, want session.Turn, wantTag string) {
	r.t.Helper()
	got, turn, err := r.Put(r.t.Context(), at, bound(tag))
	if err != nil || turn != want || got.Tag != wantTag {
		r.t.Errorf("Put %q: %+v %v %v, want %v %q", tag, got, turn, err, want, wantTag)
	}
}

func (r replica) keeps(at session.Place, tag string, unused, stand time.Duration, want string, wantStands bool) {
	r.t.Helper()
	holds, stands, err := r.Keep(r.t.Context(), at, bound(tag), unused, stand, "")
	if err != nil || holds != want || (stands == r.Self()) != wantStands {
		r.t.Errorf("Keep %q: %q %v %v, want %q %v", tag, holds, stands, err, want, wantStands)
	}
}

// stands wants the standing stream, for this one where the other has it but is gone.
func (r replica) stands(at session.Place, tag, gone string, want replica) {
	r.t.Helper()
	if _, stands, err := r.Keep(r.t.Context(), at, bound(tag), 0, lease, gone); err != nil || stands != want.Self() {
		r.t.Errorf("%s stands, %v, want %s", stands, err, want.Self())
	}
}

func (r replica) ends(at session.Place, tag string, want session.Farewell) {
	r.t.Helper()
	if got, err := r.End(r.t.Context(), at, tag); err != nil || got != want {
		r.t.Errorf("End %q: %v %v, want %v", tag, got, err, want)
	}
}

func (r replica) releases(at session.Place) {
	r.t.Helper()
	if err := r.Release(r.t.Context(), at); err != nil {
		r.t.Error(err)
	}
}

func bound(tag string) session.Binding { return session.Binding{Tag: tag, Value: "value of " + tag} }

// RunBindings runs the suite over what replicas have in common of upstreams' sessions: in
// each test, in calls it with what makes two replicas that know nothing, and what lets
// time pass for them.
func RunBindings(t *testing.T, in func(t *testing.T, test func(t *testing.T, a, b Bindings, pass func(time.Duration)))) {
	ofSession := session.Place{Key: "user:AAAAAAAAAAAAAAAAAAAAAAAAAA", Server: "one"}
	ofClient := session.Place{Key: "user:~0123", Server: "one", Idle: 10 * time.Minute}
	const yours, others, taken, over = session.Yours, session.Others, session.Taken, session.Over
	tests := []struct {
		name string
		run  func(p pair, at session.Place)
	}{
		{"one opens", func(p pair, at session.Place) {
			p.a.takes(at, "", yours, "")
			p.b.takes(at, "", others, "")
			p.a.puts(at, "1", yours, "")
			p.a.puts(at, "1", yours, "") // when the answer did not come, it is asked again
			p.b.takes(at, "", taken, "1")
			p.a.takes(at, "", taken, "1")
			for _, other := range []session.Place{{Key: at.Key + "2", Server: at.Server}, {Key: at.Key, Server: "two"}, {Key: "v:x", Server: at.Server}} {
				p.b.takes(other, "", yours, "")
			}
		}},
		{"who opens takes too long", func(p pair, at session.Place) {
			p.a.takes(at, "", yours, "")
			p.pass(lease + time.Second)
			p.b.takes(at, "", yours, "")
			p.a.takes(at, "", others, "")
			p.b.puts(at, "2", yours, "")
			p.a.puts(at, "1", taken, "2")
		}},
		{"the first is that of all", func(p pair, at session.Place) {
			p.a.takes(at, "", yours, "")
			p.b.puts(at, "2", yours, "") // without a turn
			p.a.puts(at, "1", taken, "2")
			p.a.takes(at, "", taken, "2")
		}},
		{"who opens fails", func(p pair, at session.Place) {
			p.a.takes(at, "", yours, "")
			p.b.releases(at) // not its turn
			p.b.takes(at, "", others, "")
			p.a.releases(at)
			p.b.takes(at, "", yours, "")
			p.b.puts(at, "1", yours, "")
			p.b.releases(at) // nothing to release
			p.a.takes(at, "", taken, "1")
		}},
		{"a lost one is opened anew once", func(p pair, at session.Place) {
			p.a.takes(at, "", yours, "")
			p.a.puts(at, "1", yours, "")
			p.b.takes(at, "1", yours, "")
			p.a.takes(at, "1", others, "")
			p.a.takes(at, "", others, "")
			p.b.puts(at, "2", yours, "")
			p.a.takes(at, "1", taken, "2")
			p.b.takes(at, "1", taken, "2")
		}},
		{"what is gone is put back", func(p pair, at session.Place) {
			p.a.keeps(at, "1", 0, 0, "1", false)
			p.b.takes(at, "", taken, "1")
			p.b.keeps(at, "2", 0, lease, "1", false)
			p.b.takes(at, "1", yours, "")
			p.a.keeps(at, "1", 0, 0, "1", false) // not while another one is opened
			p.b.puts(at, "2", yours, "")
			p.a.keeps(at, "1", 0, lease, "2", false)
		}},
		{"one stands", func(p pair, at session.Place) {
			p.a.keeps(at, "1", 0, -time.Second, "1", false)
			p.b.takes(at, "", yours, "") // who leaves puts nothing back
			p.b.puts(at, "1", yours, "")
			p.a.keeps(at, "1", 0, lease, "1", true)
			p.b.keeps(at, "1", 0, lease, "1", false)
			p.b.keeps(at, "1", 0, -time.Second, "1", false) // not its to give back
			p.b.keeps(at, "1", 0, lease, "1", false)
			p.pass(lease / 2)
			p.a.keeps(at, "1", 0, lease, "1", true)
			p.pass(lease / 2)
			p.b.keeps(at, "1", 0, lease, "1", false)
			p.a.keeps(at, "1", 0, 0, "1", false)
			p.pass(lease / 2)
			p.b.keeps(at, "1", 0, lease, "1", true)
			p.b.keeps(at, "1", 0, -time.Second, "1", false)
			p.a.keeps(at, "1", 0, lease, "1", true)
		}},
		{"one stands in the place of one that is gone", func(p pair, at session.Place) {
			p.a.puts(at, "1", yours, "")
			p.a.stands(at, "1", "", p.a)
			p.b.stands(at, "1", "", p.a)
			p.b.stands(at, "1", "another", p.a)
			p.b.stands(at, "1", p.a.Self(), p.b)
			p.a.stands(at, "1", p.a.Self(), p.b)
		}},
		{"what nobody uses is forgotten", func(p pair, at session.Place) {
			p.a.puts(at, "1", yours, "")
			life := p.a.Life(at)
			p.pass(life / 2)
			p.a.keeps(at, "1", 0, 0, "1", false)
			p.pass(life * 3 / 4)
			p.b.takes(at, "", taken, "1")
			p.pass(life * 3 / 4)
			p.b.takes(at, "", taken, "1")
			p.pass(life + time.Second)
			p.b.takes(at, "", yours, "")
		}},
		{"something is claimed once", func(p pair, at session.Place) {
			for what, first := range map[string]replica{"x": p.a, "y": p.b} {
				for i, r := range []replica{first, p.a, p.b} {
					if got, err := r.Claim(p.t.Context(), at, what); err != nil || got != (i == 0) {
						p.t.Errorf("claim %d of %s: %v %v", i, what, got, err)
					}
				}
			}
		}},
		{"of many one opens", func(p pair, at session.Place) {
			turns := make(chan session.Turn, 20)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					_, turn, err := []replica{p.a, p.b}[i%2].Take(p.t.Context(), session.Place{Key: at.Key, Server: "many", Idle: at.Idle}, "", lease)
					if err != nil {
						p.t.Error(err)
					}
					turns <- turn
				})
			}
			all.Wait()
			count := make(map[session.Turn]int)
			for range 20 {
				count[<-turns]++
			}
			if count[yours] != 10 || count[others] != 10 { // within a replica the pool sees to it
				p.t.Errorf("%v", count)
			}
		}},
	}
	for _, tt := range tests {
		for _, at := range []session.Place{ofSession, ofClient} {
			t.Run(tt.name+" "+at.Key, func(t *testing.T) {
				in(t, func(t *testing.T, a, b Bindings, pass func(time.Duration)) {
					tt.run(pair{t, replica{t, a}, replica{t, b}, pass}, at)
				})
			})
		}
	}
	t.Run("the end of a client's session", func(t *testing.T) {
		in(t, func(t *testing.T, one, other Bindings, _ func(time.Duration)) {
			a, b, at := replica{t, one}, replica{t, other}, ofSession
			a.puts(at, "1", yours, "")
			a.ends(at, "0", session.Kept) // one that was lost before
			b.takes(at, "", taken, "1")
			b.ends(at, "1", session.Last)
			a.ends(at, "1", session.Kept)
			a.takes(at, "", over, "")
			a.takes(at, "1", over, "")
			a.puts(at, "2", over, "")
			a.keeps(at, "1", 0, lease, "", false)
			at.Server = "two"
			a.puts(at, "1", yours, "")
			a.ends(at, "1", session.Alone)
			b.ends(at, "1", session.Kept)
			at.Server = "three" // of which nothing is kept
			a.ends(at, "1", session.Alone)
			b.ends(at, "1", session.Kept)
		})
	})
	t.Run("the end of one that is idle soon", func(t *testing.T) {
		in(t, func(t *testing.T, one, other Bindings, pass func(time.Duration)) {
			a, b, at := replica{t, one}, replica{t, other}, ofClient
			at.Idle = time.Second
			for tries := 0; ; tries++ { // on a slow machine it may be idle in the end
				a.puts(at, "1", yours, "")
				pass(at.Idle)
				start := time.Now()
				b.keeps(at, "1", 0, 0, "1", false)
				got, err := a.End(t.Context(), at, "1")
				switch {
				case err == nil && got == session.Kept:
					pass(at.Idle)
					a.ends(at, "1", session.Alone)
					return
				case err != nil || time.Since(start) < at.Idle/2 || tries == 100:
					t.Fatalf("End of one that is used: %v %v", got, err)
				}
			}
		})
	})
	t.Run("the end of one that is idle", func(t *testing.T) {
		in(t, func(t *testing.T, one, other Bindings, pass func(time.Duration)) {
			a, b, at := replica{t, one}, replica{t, other}, ofClient
			a.puts(at, "1", yours, "")
			pass(at.Idle)
			b.keeps(at, "1", time.Minute, 0, "1", false)
			a.ends(at, "1", session.Kept)
			pass(at.Idle - 2*time.Minute)
			b.ends(at, "1", session.Kept)
			pass(time.Minute)
			a.ends(at, "0", session.Kept)
			b.ends(at, "1", session.Alone)
			a.ends(at, "1", session.Kept)
			a.takes(at, "", yours, "")
		})
	})
}

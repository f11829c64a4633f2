package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
)

// TestRedisUser: H/189 the user that docs/configuration.md tells operators to make is allowed
// enough, in a Cluster, too.
func TestRedisUser(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		runAsUser(t, server.URL(), server.Advance, server)
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		runAsUser(t, cluster.URL(), cluster.Advance, cluster.Nodes...)
	})
}

// asUser is a place in Redis for that user, at some servers.
func asUser(t *testing.T, nodes ...*redistest.Server) redisdb.Config {
	t.Helper()
	redistest.AddUser(t, "../docs/configuration.md", nodes...)
	return redisdb.Config{Username: redistest.Username, Password: redistest.Password}
}

func runAsUser(t *testing.T, url string, advance func(testing.TB, time.Duration), nodes ...*redistest.Server) {
	place := asUser(t, nodes...)
	runs := 0
	begin := func(t *testing.T, cfg session.Config, deps session.Deps) *replica {
		cfg.Redis = place
		cfg.Redis.Prefix = fmt.Sprintf("gatehouse:%d:", runs)
		return newReplica(t, url, cfg, deps)
	}
	sessiontest.RunWith(t, func(t *testing.T, cfg session.Config, deps session.Deps) session.Store {
		runs++
		return begin(t, cfg, deps)
	}, func(t *testing.T, store session.Store, d time.Duration) {
		r := store.(*replica)
		advance(t, d)
		r.skew.Add(int64(d))
		r.Sweep()
	}, slack)
	r, other := begin(t, session.Config{}, session.Deps{}), begin(t, session.Config{}, session.Deps{})
	if err := r.Grants().Grant(t.Context(), r.create(t).Key(), map[string]string{"a": "x"}, 0); err != nil {
		t.Error(err)
	}
	tellsAll(t, r, other)
	sessiontest.RunBindings(t, func(t *testing.T, test func(*testing.T, sessiontest.Bindings, sessiontest.Bindings, func(time.Duration))) {
		runs++
		a, b := begin(t, session.Config{}, session.Deps{}), begin(t, session.Config{}, session.Deps{})
		test(t, a.Bindings(), b.Bindings(), func(d time.Duration) { advance(t, d) })
	})
}

// tellsAll wants messages of all kinds and sizes to be taken: four are mail for other, and no
// two begin alike.
func tellsAll(t *testing.T, r, other *replica) {
	t.Helper()
	for what, tell := range map[string]func([]byte) error{
		"all":      func(m []byte) error { return r.Broadcast(t.Context(), m) },
		"one":      func(m []byte) error { return r.Send(t.Context(), other.Self(), m) },
		"bindings": func(m []byte) error { return r.Bindings().Tell(t.Context(), m) },
	} {
		for _, size := range []int{1, 1 << 20} {
			if err := tell(append([]byte(what), make([]byte, size)...)); err != nil {
				t.Errorf("%d bytes for %s: %v", size, what, err)
			}
		}
	}
}

// TestRedisTLS: replicas hear each other over TLS, as that user and with a certificate.
func TestRedisTLS(t *testing.T) {
	server := redistest.Start(t)
	place, tls := asUser(t, server), server.ServeTLS(t)
	place.CAFile, place.CertFile, place.KeyFile = tls.CAFile, tls.CertFile, tls.KeyFile
	heard := make(chan int, 10)
	begin := func(deps session.Deps) *replica {
		return newReplica(t, "rediss://"+tls.Addr, session.Config{Redis: place}, deps)
	}
	a := begin(session.Deps{})
	b := begin(session.Deps{OnMail: func(m []byte) { heard <- len(m) }})
	b.want(t, "a session of another replica", a.create(t), nil)
	tellsAll(t, a, b)
	for range 4 {
		select {
		case <-heard:
		case <-time.After(patience):
			t.Fatal("it is not heard")
		}
	}
}

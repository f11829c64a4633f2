package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/session/sessiontest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// inn is a server that knows the sessions it has begun, and takes one standing stream for
// each. It is in a bubble.
type inn struct {
	*fake
	// calls takes what else than the usual is done for a request; false for nothing.
	calls func(w http.ResponseWriter, r *http.Request, m rpc) bool

	mu    sync.Mutex // guards the fields below
	begun int
	open  map[string]chan string // what to say on its standing stream, by session
	stand map[string]bool
}

func newInn(t *testing.T) *inn {
	i := &inn{open: make(map[string]chan string), stand: make(map[string]bool)}
	i.fake = newBubbleFake(t, true, i.handle)
	return i
}

func (i *inn) handle(f *fake, w http.ResponseWriter, r *http.Request, m rpc) bool {
	if m.Method == mcp.MethodDiscover || i.calls != nil && i.calls(w, r, m) {
		return m.Method != mcp.MethodDiscover
	}
	id := r.Header.Get("Mcp-Session-Id")
	i.mu.Lock()
	defer i.mu.Unlock()
	if m.Method == mcp.MethodInitialize {
		i.begun++
		id = fmt.Sprint("s", i.begun)
		i.open[id] = make(chan string, 10)
		w.Header().Set("Mcp-Session-Id", id)
		result(w, m, `{"protocolVersion":"`+f.version+`","capabilities":`+f.caps+`,"serverInfo":{"name":"inn","version":"1"}}`)
		return true
	}
	say := i.open[id]
	switch {
	case say == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		delete(i.open, id)
	case r.Method == http.MethodGet && i.stand[id]:
		w.WriteHeader(http.StatusConflict)
	case r.Method == http.MethodGet:
		i.stand[id] = true
		i.mu.Unlock()
		events(w, ": hello\n\n")
		for ended := false; !ended; {
			select {
			case text := <-say:
				events(w, "data: "+text+"\n\n")
			case <-r.Context().Done():
				ended = true
			}
		}
		i.mu.Lock()
		delete(i.stand, id)
	case m.Method == mcp.MethodToolsCall:
		result(w, m, `{"content":[{"type":"text","text":"`+id+`"}]}`)
	default:
		return false
	}
	return true
}

// say says something on the standing stream of the only session.
func (i *inn) say(t *testing.T, text string) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.open) != 1 {
		t.Fatalf("%d sessions are open", len(i.open))
	}
	for _, say := range i.open {
		say <- text
	}
}

// forget is a restart.
func (i *inn) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.open)
}

// count is how many sessions were ever begun, and how many are open.
func (i *inn) count() (begun, open int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begun, len(i.open)
}

// together is upstream.Shared of replicas in one process.
type together struct {
	*sessiontest.MemoryReplica
	all  *gateways
	dead chan struct{} // closed when it is taken to have gone
	cut  chan struct{} // closed when it is killed

	unseen atomic.Bool // it is taken to have gone, though it has not
}

type gateways struct {
	*sessiontest.MemoryBindings
	mu   sync.Mutex // guards the fields below
	all  map[*together]*upstream.Upstream
	slow time.Duration // how long it takes to tell something
}

// slowly has it take a while to tell something.
func (g *gateways) slowly(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slow = d
}

func newGateways() *gateways {
	return &gateways{MemoryBindings: sessiontest.NewMemoryBindings(), all: make(map[*together]*upstream.Upstream)}
}

// lease is after what time the others take one that was killed to have gone.
const lease = 10 * time.Second

// kill ends what a replica has open, and all that it does.
func (g *gateways) kill(u *upstream.Upstream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for self, other := range g.all {
		if other == u {
			close(self.cut)
			time.AfterFunc(lease, func() { close(self.dead) })
		}
	}
}

// Watch is of those that kill was called for.
func (g *together) Watch(replica string) (gone <-chan struct{}, stop func()) {
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for other := range g.all.all {
		if other.Self() == replica {
			return other.dead, func() {}
		}
	}
	return nil, func() {}
}

// err is why a replica knows nothing.
func (g *together) err() error {
	select {
	case <-g.cut:
		return session.ErrUnavailable
	default:
		return nil
	}
}

// join starts one more replica for the server.
func (g *gateways) join(t *testing.T, i *inn, cfg upstream.Config) *upstream.Upstream {
	t.Helper()
	return g.joinAt(t, i.fake, cfg)
}

func (g *gateways) joinAt(t *testing.T, i *fake, cfg upstream.Config) *upstream.Upstream {
	t.Helper()
	cfg.Name, cfg.URL = "inn", i.URL+i.path
	self := &together{MemoryReplica: g.Replica(), all: g, dead: make(chan struct{}), cut: make(chan struct{})}
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := i.network.DialContext(ctx, network, address)
		if err == nil {
			go func() {
				select {
				case <-self.cut:
					conn.Close()
				case <-t.Context().Done():
				}
			}()
		}
		return conn, errors.Join(err, self.err())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	u, err := upstream.New(cfg, upstream.Deps{Log: slog.New(slog.DiscardHandler), HTTP: transport, Shared: self, Peers: self})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, u) })
	g.mu.Lock()
	g.all[self] = u
	g.mu.Unlock()
	return u
}

func placeOf(at upstream.Place) session.Place {
	return session.Place{Key: at.Session, Server: at.Server, Idle: at.Idle}
}

func (g *together) Take(ctx context.Context, at upstream.Place, stale string, lease time.Duration) (upstream.Kept, upstream.Turn, error) {
	b, turn, err := g.MemoryReplica.Take(ctx, placeOf(at), stale, lease)
	return upstream.Kept{Tag: b.Tag, Value: []byte(b.Value)}, upstream.Turn(turn), err
}

func (g *together) Put(ctx context.Context, at upstream.Place, made upstream.Kept) (upstream.Kept, upstream.Turn, error) {
	b, turn, err := g.MemoryReplica.Put(ctx, placeOf(at), session.Binding{Tag: made.Tag, Value: string(made.Value)})
	return upstream.Kept{Tag: b.Tag, Value: []byte(b.Value)}, upstream.Turn(turn), err
}

func (g *together) Release(ctx context.Context, at upstream.Place) error {
	return g.MemoryReplica.Release(ctx, placeOf(at))
}

func (g *together) Keep(ctx context.Context, at upstream.Place, made upstream.Kept, unused, stand time.Duration, gone string) (holds, stands string, err error) {
	if err := g.err(); err != nil {
		return "", "", err
	}
	return g.MemoryReplica.Keep(ctx, placeOf(at), session.Binding{Tag: made.Tag, Value: string(made.Value)}, unused, stand, gone)
}

func (g *together) Life(at upstream.Place) time.Duration { return g.MemoryReplica.Life(placeOf(at)) }

func (g *together) End(ctx context.Context, at upstream.Place, tag string) (upstream.Farewell, error) {
	f, err := g.MemoryReplica.End(ctx, placeOf(at), tag)
	return upstream.Farewell(f), err
}

func (g *together) Claim(ctx context.Context, at upstream.Place, what string) (bool, error) {
	return g.MemoryReplica.Claim(ctx, placeOf(at), what)
}

// Tell tells the others, as slowly as it was said.
// It runs in a bubble of synctest.
func (g *together) Tell(ctx context.Context, at upstream.Place, message []byte) error {
	if _, err := g.MemoryReplica.Claim(ctx, placeOf(at), "to tell"); err != nil || g.err() != nil {
		return errors.Join(err, g.err())
	}
	g.all.mu.Lock()
	slow := g.all.slow
	g.all.mu.Unlock()
	time.Sleep(slow)
	g.all.mu.Lock()
	defer g.all.mu.Unlock()
	for other, u := range g.all.all {
		if other != g {
			u.Hear(at.Session, at.Server, message)
		}
	}
	return nil
}

func (g *together) Ask(ctx context.Context, at upstream.Place, key string, question []byte) error {
	return errors.Join(g.err(), g.MemoryReplica.Ask(ctx, placeOf(at), key, string(question)))
}

func (g *together) Answered(ctx context.Context, at upstream.Place, key string) (bool, error) {
	if err := g.err(); err != nil {
		return false, err
	}
	return g.MemoryReplica.Answered(ctx, placeOf(at), key)
}

// It runs in a bubble of synctest.
func (g *together) Asked(ctx context.Context, at upstream.Place) (all []upstream.Asked, err error) {
	kept, err := g.MemoryReplica.Asked(ctx, placeOf(at))
	for _, q := range kept {
		all = append(all, upstream.Asked{Key: q.Key, Replica: q.Replica, Question: []byte(q.Value)})
	}
	time.Sleep(time.Millisecond) // so that of several who look at the same time each sees the same
	return all, errors.Join(g.err(), err)
}

func (g *together) Inherit(ctx context.Context, at upstream.Place, q upstream.Asked) (bool, error) {
	if err := g.err(); err != nil {
		return false, err
	}
	return g.MemoryReplica.Inherit(ctx, placeOf(at), session.Question{Key: q.Key, Replica: q.Replica})
}

func (g *together) Settle(ctx context.Context, at upstream.Place, key string) error {
	return errors.Join(g.err(), g.MemoryReplica.Settle(ctx, placeOf(at), key))
}

// wantAt checks in which session of the inn a call is made.
func wantAt(t *testing.T, u *upstream.Upstream, c *mcp.Call, want string) {
	t.Helper()
	if reply := mustDo(t, u, c); !strings.Contains(string(reply.Result), `"text":"`+want+`"`) {
		t.Errorf("result %s, want %s", reply.Result, want)
	}
}

// inReplicas runs a test in a bubble with an inn and two replicas in front of it.
func inReplicas(t *testing.T, test func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		i, g := newInn(t), newGateways()
		test(t, i, g, g.join(t, i, upstream.Config{}), g.join(t, i, upstream.Config{}))
	})
}

// ephemeral makes of a call that of a client without a session.
func ephemeral(c *mcp.Call) *mcp.Call {
	c.Session, c.Ephemeral = "user:~1", true
	return c
}

// It runs in a bubble of synctest.
func TestReplicasHaveOneSession(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s1")
		wantAt(t, b, ephemeral(tool("x")), "s2")
		wantAt(t, a, ephemeral(tool("x")), "s2")
		wantAt(t, a, ephemeral(asked("x")), "s3") // another one declares something else
		other := tool("x")
		other.Session = "user:other"
		wantAt(t, b, other, "s4")
		ids := make(map[string]bool)
		for _, s := range i.requests(mcp.MethodToolsCall) {
			if ids[string(s.ID)] || len(s.ID) > 10 {
				t.Errorf("request id %s comes twice, or is long", s.ID)
			}
			ids[string(s.ID)] = true
			if s.header.Get("Mcp-Protocol-Version") != i.version {
				t.Errorf("revision %q", s.header.Get("Mcp-Protocol-Version"))
			}
		}
	})
}

// It runs in a bubble of synctest.
func TestH_156_ReplicasLoseASession(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s1")
		i.forget()
		wantAt(t, b, tool("x"), "s2")
		i.forget()
		wantAt(t, a, tool("x"), "s3") // it takes up s2 on the way
		wantAt(t, b, tool("x"), "s3")
		if begun, _ := i.count(); begun != 3 {
			t.Errorf("%d sessions were begun", begun)
		}
		// A server that forgets each session at once is not asked for ever.
		i.calls = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodToolsCall {
				w.WriteHeader(http.StatusNotFound)
			}
			return m.Method == mcp.MethodToolsCall
		}
		_, err := do(t, a, tool("x"))
		wantError(t, err, mcp.CodeUpstreamSessionLost, mcp.ExecutedNo)
		if begun, _ := i.count(); begun != 4 {
			t.Errorf("%d sessions were begun, want one more", begun)
		}
	})
}

// What is subscribed and the log level are there again in a session that another replica
// has begun anew.
// It runs in a bubble of synctest.
func TestReplicasRestoreASession(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		end, got := listen(t, a, `{"resourceSubscriptions":["a:b"]}`, "user:session")
		if e := <-got; e.Method != mcp.NoteAcknowledged {
			t.Fatalf("told %s", e.Method)
		}
		level := tool("x")
		level.LogLevel = "debug"
		wantAt(t, a, level, "s1")
		wantAt(t, b, tool("x"), "s1")
		i.forget()
		wantAt(t, b, tool("x"), "s2")
		wantAt(t, a, tool("x"), "s2")
		time.Sleep(time.Minute)
		in := make(map[string]string)
		for _, s := range i.requests("") {
			in[s.Method] += s.header.Get("Mcp-Session-Id")
		}
		if in[mcp.MethodResourcesSubscribe] != "s1s2" || in[mcp.MethodSetLevel] != "s1s2" {
			t.Errorf("subscribed in %s, level set in %s", in[mcp.MethodResourcesSubscribe], in[mcp.MethodSetLevel])
		}
		end()
	})
}

// It runs in a bubble of synctest.
func TestReplicasEndASessionOnce(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s1")
		a.EndSession("user:session")
		b.EndSession("user:session")
		time.Sleep(time.Hour)
		if n := len(i.requests(http.MethodDelete)); n != 1 {
			t.Errorf("%d times DELETE", n)
		}
	})
}

// It runs in a bubble of synctest.
func TestReplicasLeaveASessionToTheOthers(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		shut(t, a)
		wantAt(t, b, tool("x"), "s1")
		shut(t, b)
		wantAt(t, g.join(t, i, upstream.Config{}), tool("x"), "s1") // H/47: after a restart of all
		wantAt(t, g.join(t, i, upstream.Config{Headers: map[string]mcp.Secret{"X-Account": "other"}}), tool("x"), "s2")
		if n := len(i.requests(http.MethodDelete)); n != 0 {
			t.Errorf("%d times DELETE", n)
		}
	})
}

// The session of a client without one ends when no replica has used it for long.
func TestReplicasEndAnIdleSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, g := newInn(t), newGateways()
		cfg := upstream.Config{Timeout: upstream.Timeout{Idle: 10 * time.Minute}}
		a, b := g.join(t, i, cfg), g.join(t, i, cfg)
		wantAt(t, a, ephemeral(tool("x")), "s1")
		for range 5 {
			wantAt(t, b, ephemeral(tool("x")), "s1")
			time.Sleep(6 * time.Minute)
		}
		if n := len(i.requests(http.MethodDelete)); n != 0 || a.Status().Sessions != 0 {
			t.Errorf("%d times DELETE, %d sessions at the idle replica", n, a.Status().Sessions)
		}
		time.Sleep(time.Hour)
		if n := len(i.requests(http.MethodDelete)); n != 1 {
			t.Errorf("%d times DELETE", n)
		}
		wantAt(t, a, ephemeral(tool("x")), "s2")
	})
}

// A session that another replica uses does not end, however short the idle time is: that it
// is used is said in time.
// It runs in a bubble of synctest.
func TestReplicasKeepASessionThatOneUses(t *testing.T) {
	for _, idle := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			i, g := newInn(t), newGateways()
			cfg := upstream.Config{Timeout: upstream.Timeout{Idle: idle}}
			a, b := g.join(t, i, cfg), g.join(t, i, cfg)
			wantAt(t, a, ephemeral(tool("x")), "s1")
			for range 20 {
				wantAt(t, b, ephemeral(tool("x")), "s1")
				time.Sleep(idle * 9 / 20)
			}
			if n := len(i.requests(http.MethodDelete)); n != 0 || a.Status().Sessions != 0 {
				t.Errorf("idle %s: %d times DELETE, %d sessions at the idle replica", idle, n, a.Status().Sessions)
			}
		})
	}
}

// So it does where it was nearly over when it is used again.
// It runs in a bubble of synctest.
func TestReplicasUseASessionThatIsNearlyOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, g := newInn(t), newGateways()
		cfg := upstream.Config{Timeout: upstream.Timeout{Idle: 10 * time.Minute}}
		a, b := g.join(t, i, cfg), g.join(t, i, cfg)
		first := ephemeral(tool("x"))
		first.Session = "user:~2"
		wantAt(t, b, first, "s1") // so that it looks for idle sessions after 10m, and 11m
		time.Sleep(31 * time.Second)
		wantAt(t, a, ephemeral(tool("x")), "s2") // which looks after 10m31s
		time.Sleep(time.Second)
		wantAt(t, b, ephemeral(tool("x")), "s2")
		time.Sleep(10*time.Minute - 1500*time.Millisecond)
		wantAt(t, b, ephemeral(tool("x")), "s2")
		time.Sleep(time.Second)
		if n := a.Status().Sessions; n != 0 {
			t.Fatalf("%d sessions at the replica that is idle", n)
		}
		wantAt(t, b, ephemeral(tool("x")), "s2")
	})
}

// The session of a client that has one is known for as long as that, however seldom it is
// used.
// It runs in a bubble of synctest.
func TestReplicasKeepASessionThatIsSeldomUsed(t *testing.T) {
	inReplicas(t, func(t *testing.T, _ *inn, _ *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		time.Sleep(5 * time.Hour)
		wantAt(t, b, tool("x"), "s1")
	})
}

// While nobody can tell what the others know, each goes on alone; afterwards they have one
// session again.
// It runs in a bubble of synctest.
func TestH_178_ReplicasThatKnowNothingOfEachOther(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, g *gateways, a, b *upstream.Upstream) {
		wantAt(t, a, tool("x"), "s1")
		g.Break(true)
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, b, tool("x"), "s2")
		wantAt(t, b, ephemeral(tool("x")), "s3")
		time.Sleep(time.Minute)
		g.Break(false)
		time.Sleep(time.Minute)
		wantAt(t, b, tool("x"), "s1")
		wantAt(t, a, tool("x"), "s1")
		wantAt(t, a, ephemeral(tool("x")), "s3")
		deleted := i.requests(http.MethodDelete)
		if len(deleted) != 1 || deleted[0].header.Get("Mcp-Session-Id") != "s2" {
			t.Errorf("%d times DELETE", len(deleted))
		}
		g.Forget() // a Redis that begins empty
		time.Sleep(time.Hour)
		wantAt(t, b, tool("x"), "s1")
		wantAt(t, g.join(t, i, upstream.Config{}), tool("x"), "s1")
	})
}

// Who waits too long for another replica goes alone, and the first session is that of all.
// It runs in a bubble of synctest.
func TestReplicasDoNotWaitForEver(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		var slowed atomic.Bool
		i.calls = func(_ http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodInitialize && !slowed.Swap(true) {
				time.Sleep(8 * time.Second)
			}
			return false
		}
		slow := make(chan *mcp.Reply)
		go func() { slow <- mustDo(t, a, tool("x")) }()
		time.Sleep(time.Second)
		began := time.Now()
		wantAt(t, b, tool("x"), "s1")
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("it waited for %s", took)
		}
		if reply := <-slow; !strings.Contains(string(reply.Result), `"s1"`) {
			t.Errorf("the slow one: %s", reply.Result)
		}
		synctest.Wait()
		if begun, open := i.count(); begun != 2 || open != 1 {
			t.Errorf("%d sessions were begun, %d are open", begun, open)
		}
	})
}

// A replica that cannot open a session does not keep the others from it.
// It runs in a bubble of synctest.
func TestReplicasThatFailToOpen(t *testing.T) {
	inReplicas(t, func(t *testing.T, i *inn, _ *gateways, a, b *upstream.Upstream) {
		var broken atomic.Bool
		i.calls = func(w http.ResponseWriter, _ *http.Request, m rpc) bool {
			if m.Method == mcp.MethodInitialize && !broken.Swap(true) {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		}
		if _, err := do(t, a, tool("x")); !errors.As(err, new(*mcp.Error)) {
			t.Errorf("error %v", err)
		}
		began := time.Now()
		wantAt(t, b, tool("x"), "s1")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the other one waited for %s", took)
		}
	})
}

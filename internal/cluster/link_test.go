package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// raw sends a request over the link of one house to another, with these headers.
func raw(t *testing.T, from, to *house, r *http.Request) *http.Response {
	t.Helper()
	p := from.members.peer(to.Self())
	if p == nil {
		t.Fatal("they do not know each other")
	}
	r.URL.Scheme, r.URL.Host = "https", to.Self()
	resp, err := p.transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// TestLinkRefuses: the link refuses what no replica has sealed for this request.
func TestLinkRefuses(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho), startHouse(t, redis, sayWho)
	a.own(t, some("x"))
	b.own(t, some("x"))
	foreign, err := newCarried(b.Self(), []byte(otherKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	get := func() *http.Request {
		r := httptest.NewRequest("GET", "/u1/x", nil)
		r.RequestURI = ""
		return r
	}
	good := b.forwards.carried.write(a.Self(), get(), "u1:x", nil)
	tests := []struct {
		name, value string
		want        int
	}{
		{"good", good, http.StatusOK},
		{"replayed", good, http.StatusForbidden},
		{"forged", "AAAA", http.StatusForbidden},
		{"of another key", foreign.write(a.Self(), get(), "u1:x", nil), http.StatusForbidden},
		{"for another", b.forwards.carried.write(b.Self(), get(), "u1:x", nil), http.StatusForbidden},
		{"of another sender", a.forwards.carried.write(a.Self(), get(), "u1:x", nil), http.StatusForbidden},
		{"none", "", http.StatusForbidden},
	}
	refused := 0.0
	for _, tt := range tests {
		r := get()
		if tt.value != "" {
			r.Header.Set(carriedHeader, tt.value)
		}
		if resp := raw(t, b, a, r); resp.StatusCode != tt.want {
			t.Errorf("%s: %s", tt.name, resp.Status)
		}
		if tt.want == http.StatusForbidden {
			refused++
		}
		if n := counted(t, a.link.count.refused); n != refused {
			t.Errorf("%s: %v are counted", tt.name, n)
		}
	}
}

// TestForeignReplica: a replica with another key is not admitted, and nothing is accepted from
// it.
func TestForeignReplica(t *testing.T) {
	redis := redistest.Start(t)
	a := startHouse(t, redis, sayWho)
	b := startHouse(t, redis, sayWho, func(_ *Config, deps *Deps, _ *times) { deps.Key = []byte(otherKey) })
	a.own(t, some("x"))
	if _, err := b.Own(t.Context(), some("x")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a home of a replica that cannot be known: %v", err)
	}
	if len(a.Peers())+len(b.Peers()) != 0 {
		t.Error("they take each other for peers")
	}
	a.members.mu.Lock()
	l := a.members.own
	a.members.mu.Unlock()
	p := newPeer(a.Self(), "", l, b.members.identity, usualTimes(), tcp{})
	defer p.gone()
	req := httptest.NewRequest("GET", "https://"+a.Self()+contactPath, nil)
	req.RequestURI = ""
	if resp, err := p.transport.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("it is let in")
	}
}

// TestPinned: nothing is sent to another process that answers at a replica's address.
func TestPinned(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho, hasty), startHouse(t, redis, sayWho, hasty)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	p := b.members.peer(a.Self())
	p.digest = digestOf([]byte("another certificate"))
	if err := b.Forward(httptest.NewRecorder(), httptest.NewRequest("GET", "/u1/x", nil), o.Replica, "u1:x",
		nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Forward: %v", err)
	}
	if o := b.own(t, some("x")); o.Here() {
		t.Error("the home is taken from a replica whose lease holds")
	}
	if peers := b.Peers(); len(peers) != 1 || peers[0].Err == nil {
		t.Errorf("it is said to be reached: %+v", peers)
	}
	eventually(t, "the replica is counted as unreachable", func() bool {
		var m dto.Metric
		return b.members.count.unreachable.Write(&m) == nil && m.GetGauge().GetValue() == 1
	})
}

// TestNewcomer: replicas that have not seen a new replica yet admit it.
func TestNewcomer(t *testing.T) {
	redis := redistest.Start(t)
	seldom := func(_ *Config, _ *Deps, t *times) { t.beat, t.lease = time.Hour, 3*time.Hour }
	a := startHouse(t, redis, sayWho, seldom)
	a.own(t, some("x"))
	for range 3 {
		b := startHouse(t, redis, sayWho, seldom)
		if who := b.get(t, "/u1/x"); who != a.Self() {
			t.Errorf("%s answers", who)
		}
	}
}

func TestPeers(t *testing.T) {
	redis := redistest.Start(t)
	a := startHouse(t, redis, sayWho)
	b := startHouse(t, redis, sayWho, func(_ *Config, deps *Deps, _ *times) { deps.Revision = "r2" })
	eventually(t, "they know each other", func() bool { return len(a.Peers()) == 1 && len(b.Peers()) == 1 })
	if p := a.Peers()[0]; p.Name != b.Self() || p.Revision != "r2" || p.Leaving || p.Err != nil ||
		p.Address != b.link.listener.Addr().String() {
		t.Errorf("%+v", p)
	}
	b.Leaving(t.Context())
	eventually(t, "it is leaving", func() bool { return a.Peers()[0].Leaving })
	a.own(t, some("x"))
	if who := b.get(t, "/u1/x"); who != a.Self() {
		t.Errorf("one that leaves does not serve: %s", who)
	}

	db := openDB(t, redis.Addr)
	peers, err := Check(t.Context(), db, []byte(testKey), nil)
	if err != nil || len(peers) != 2 {
		t.Fatalf("Check: %+v, %v", peers, err)
	}
	for _, p := range peers {
		if p.Err != nil || p.Name != a.Self() && p.Name != b.Self() {
			t.Errorf("Check: %+v", p)
		}
	}
	if peers, err := Check(t.Context(), db, []byte(otherKey), nil); err != nil || len(peers) != 2 || peers[0].Err == nil {
		t.Errorf("Check with another key: %+v, %v", peers, err)
	}
	b.crash()
	peers, err = Check(t.Context(), db, []byte(testKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range peers {
		if (p.Err != nil) != (p.Name == b.Self()) {
			t.Errorf("Check after a crash: %+v", p)
		}
	}
	redis.Kill()
	if _, err := Check(t.Context(), db, []byte(testKey), nil); err == nil {
		t.Error("Check says nothing of a Redis that is not there")
	}
}

// TestCloseResigns: when a replica ends, so do its lease and everything that it ran.
func TestCloseResigns(t *testing.T) {
	redis := redistest.Start(t)
	a, b := startHouse(t, redis, sayWho, hasty), startHouse(t, redis, sayWho, hasty)
	a.own(t, some("x"))
	b.own(t, some("x"))
	eventually(t, "absence means something", func() bool {
		b.members.mu.Lock()
		defer b.members.mu.Unlock()
		return b.members.settled()
	})
	a.Close(t.Context())
	a.Close(t.Context())
	if o := b.own(t, some("x")); !o.Here() || o.Former != a.Self() {
		t.Errorf("a home of a replica that has left: %+v", o)
	}
	if _, err := a.Own(t.Context(), some("y")); err == nil {
		t.Error("a replica that has ended becomes an owner")
	}
}

// TestCloseWaits: the requests that other replicas have forwarded end before the link does.
func TestCloseWaits(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	redis := redistest.Start(t)
	serve := func(w http.ResponseWriter, r *http.Request, o Owner) {
		if r.URL.Query().Has("long") {
			close(began)
			<-end
		}
		sayWho(w, r, o)
	}
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	y := a.own(t, some("y"))
	answer := make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		err := b.Forward(w, httptest.NewRequest("GET", "/u1/x?long", nil), a.Self(), "u1:x", nil)
		answer <- fmt.Sprint(w.Body.String(), " ", err)
	}()
	<-began
	if err := a.Release(t.Context(), some("y"), y); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		a.Close(t.Context())
		close(closed)
	}()
	eventually(t, "it takes no more", func() bool {
		a.link.mu.Lock()
		defer a.link.mu.Unlock()
		return a.link.closed
	})
	if who := b.get(t, "/u1/y"); who != b.Self() {
		t.Errorf("%s answers for what was left", who)
	}
	close(end)
	if got := <-answer; got != a.Self()+" <nil>" {
		t.Errorf("what ran: %s", got)
	}
	<-closed
}

// TestCloseCutsOff: a forwarded call that does not end in the time for it ends with the link,
// even if the replica that sent it has vanished without closing its connection.
func TestCloseCutsOff(t *testing.T) {
	began := make(chan struct{})
	redis := redistest.Start(t)
	serve := func(_ http.ResponseWriter, r *http.Request, _ Owner) {
		close(began)
		<-r.Context().Done()
	}
	a, b := startHouse(t, redis, serve), startHouse(t, redis, serve)
	a.own(t, some("x"))
	b.own(t, some("x"))
	p := b.members.peer(a.Self())
	config := p.tls.Clone()
	config.NextProtos = []string{protoCalls}
	conn, err := tls.Dial("tcp", p.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := post("{}")
	r.Header.Set(carriedHeader, b.forwards.carried.write(a.Self(), r, "u1:x", nil))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	<-began
	over, cancel := context.WithCancel(t.Context())
	cancel()
	a.Close(over)
}

// TestCloseLosesNothing: no request is lost that is sent while the owner ends in good order,
// and all answers arrive.
func TestCloseLosesNothing(t *testing.T) {
	redis := redistest.Start(t)
	b := startHouse(t, redis, sayWho)
	for range 20 {
		a := startHouse(t, redis, sayWho)
		b.members.look(t.Context(), b.members.now())
		var senders sync.WaitGroup
		var answered atomic.Int64
		for range 4 {
			senders.Go(func() {
				for {
					w := httptest.NewRecorder()
					err := b.Forward(w, post("{}"), a.Self(), "u1:x", nil)
					switch {
					case errors.Is(err, ErrGone):
						return
					case err == nil:
						answered.Add(1)
					case !errors.Is(err, ErrMoved):
						t.Errorf("a request: %v", err)
						return
					}
				}
			})
		}
		eventually(t, "requests are answered", func() bool { return answered.Load() > 20 })
		a.Close(t.Context())
		senders.Wait()
	}
}

func TestNoLinkInTheClear(t *testing.T) {
	redis := redistest.Start(t)
	a := startReplica(t, redis, nil)
	address := a.link.listener.Addr().String()
	if resp, err := http.Get("http://" + address + contactPath); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		conn.Close()
		t.Error("it speaks an older TLS")
	}
}

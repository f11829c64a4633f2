package cluster

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// patient makes leases, and how long a peer may be silent, longer than any test.
func patient(_ *Config, _ *Deps, t *times) {
	t.lease, t.beat, t.patience, t.idle, t.ping = time.Hour, time.Minute, time.Hour, time.Hour, time.Hour
}

// missed waits until the house could not reach a peer.
func (h *house) missed(t *testing.T, name string) *peer {
	t.Helper()
	p := h.members.peer(name)
	eventually(t, "the owner is not reached", func() bool { return p.silent.Load() != 0 })
	return p
}

// TestOwnerPauses: while an owner gives no answer for a moment, a request waits until it can be sent,
// and one that was sent before is not given up.
func TestOwnerPauses(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	redis := redistest.Start(t)
	serve := func(w http.ResponseWriter, r *http.Request, o Owner) {
		if r.URL.Query().Has("long") {
			close(began)
			<-end
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, o.Replica+string(body))
	}
	way := proxyTo(t, "127.0.0.1:1")
	a := startHouse(t, redis, serve, patient, func(c *Config, _ *Deps, _ *times) { c.Advertise = way.Addr() })
	b := startHouse(t, redis, serve, patient)
	if err := way.Redirect(a.link.listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	answers := make(chan string, 2)
	send := func(query string) {
		w, r := httptest.NewRecorder(), post(query)
		r.URL.RawQuery = query
		err := b.Forward(w, r, o.Replica, "u1:x", nil)
		answers <- w.Body.String()
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	go send("long")
	<-began
	way.BlackHole()
	go send("short")
	b.missed(t, a.Self())
	way.Pass()
	if got := <-answers; got != a.Self()+"short" {
		t.Errorf("the request that waited: %q", got)
	}
	close(end)
	if got := <-answers; got != a.Self()+"long" {
		t.Errorf("the request that ran: %q", got)
	}
	if silent := b.members.peer(a.Self()).silent.Load(); silent != 0 {
		t.Errorf("silent since %d", silent)
	}
}

// TestOwnerIsSilent: requests that wait for an owner do not open a connection each. Their wait ends
// with their client, and with the owner's lease: then the home can be taken over.
func TestOwnerIsSilent(t *testing.T) {
	const waiting = 100
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			accepted.Add(1)
		}
	})
	defer accepting.Wait()
	defer silent.Close()
	redis := redistest.Start(t)
	a := startHouse(t, redis, sayWho, patient, func(c *Config, _ *Deps, _ *times) { c.Advertise = silent.Addr().String() })
	b := startHouse(t, redis, sayWho, patient)
	a.own(t, some("x"))
	o := b.own(t, some("x"))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	results := make(chan error, waiting)
	send := func(ctx context.Context) {
		results <- b.Forward(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/u1/x", nil),
			o.Replica, "u1:x", nil)
	}
	for range waiting {
		go send(ctx)
	}
	eventually(t, "they try again", func() bool { return accepted.Load() >= 3 })
	leave()
	for range waiting {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Fatalf("the client has left: %v", err)
		}
	}
	if n := accepted.Load(); n > waiting/5 {
		t.Errorf("%d requests opened %d connections", waiting, n)
	}
	go send(t.Context())
	b.missed(t, a.Self()).gone() // as at the end of its lease
	if err := <-results; !errors.Is(err, ErrGone) {
		t.Errorf("the lease has ended: %v", err)
	}
}

// TestPatience: a request is tried again until the owner has been silent for times.patience, to anybody or to
// this request.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &members{start: time.Now(), times: usualTimes()}
		p := &peer{ctx: t.Context()}
		tries := func(heard bool) (n int) {
			for began := m.now(); m.again(t.Context(), p, began); n++ {
				time.Sleep(m.times.dial)
				if heard { // by another request
					p.silent.Store(0)
				}
			}
			return n
		}
		time.Sleep(time.Hour)
		if n := tries(false); n < 4 {
			t.Errorf("a request was tried %d times again", n)
		}
		if n := tries(false); n != 0 {
			t.Errorf("the next one was tried %d times again", n)
		}
		p.silent.Store(0)
		if n := tries(true); n < 4 || n > 5 {
			t.Errorf("while others got answers, a request was tried %d times again", n)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		p.silent.Store(0)
		if m.again(left, p, m.now()) {
			t.Error("it is tried again for a client that has left")
		}
	})
}

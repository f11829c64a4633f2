//go:build unix

package http1

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestIdleConnectionsAreBounded(t *testing.T) {
	const clients, kept = 8, 3
	var all sync.WaitGroup
	all.Add(clients)
	s := newServer(t, func(_ int, p *peer) {
		p.request()
		all.Done()
		all.Wait()
		p.say(ok)
		p.answerAll()
	})
	tr := newTransport(t, Config{IdlePerHost: kept})
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() { wantOK(t, tr, post(t, s.url, "1"), "ok") })
	}
	wg.Wait()
	if n := idle(tr); n != kept {
		t.Errorf("%d idle connections, want %d", n, kept)
	}
	tr.CloseIdleConnections()
	if n := idle(tr); n != 0 {
		t.Errorf("%d idle connections after closing them", n)
	}
}

func idle(tr *Transport) (n int) {
	tr.pool.mu.Lock()
	defer tr.pool.mu.Unlock()
	for _, list := range tr.pool.idle {
		n += len(list)
	}
	return n
}

// A connection that was in use when the idle ones were closed is not kept either.
func TestCloseIdleConnectionsWhileInUse(t *testing.T) {
	s := newServer(t, func(_ int, p *peer) { p.answerAll() })
	tr := newTransport(t, Config{})
	resp, err := tr.RoundTrip(post(t, s.url, "1"))
	if err != nil {
		t.Fatal(err)
	}
	tr.CloseIdleConnections()
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
	if n := idle(tr); n != 0 {
		t.Errorf("%d idle connections", n)
	}
	for range 2 {
		wantOK(t, tr, post(t, s.url, "2"), "ok")
	}
	if n := s.connections(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// counting counts how often it is closed.
type counting struct {
	script
	closed int
}

func (c *counting) Close() error {
	c.closed++
	return nil
}

func TestIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(10, time.Minute)
		defer p.close()
		var conns []*conn
		for range 3 {
			c := newConn(&counting{}, "host")
			conns = append(conns, c)
			if !p.push(c) {
				t.Fatal("no room")
			}
			time.Sleep(25 * time.Second)
			synctest.Wait()
		}
		time.Sleep(17 * time.Second) // the first is idle for 92 s, the second for 67 s
		synctest.Wait()
		for i, want := range []int{1, 1, 0} {
			if n := conns[i].nc.(*counting).closed; n != want {
				t.Errorf("connection %d was closed %d times, want %d", i, n, want)
			}
		}
		if c := p.pop("host"); c != conns[2] {
			t.Error("the last one is not there any more")
		}
		if c := p.pop("host"); c != nil {
			t.Error("a closed one is there")
		}
		if !p.push(conns[2]) {
			t.Error("no room")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if conns[2].nc.(*counting).closed != 1 || len(p.idle) != 0 || p.sweeps != nil {
			t.Errorf("after the last: %d hosts, timer %v", len(p.idle), p.sweeps)
		}
	})
}

func TestLastUsedFirst(t *testing.T) {
	p := newPool(10, time.Minute)
	defer p.close()
	a, b, other := newConn(&counting{}, "host"), newConn(&counting{}, "host"), newConn(&counting{}, "other")
	for _, c := range []*conn{a, b, other} {
		p.push(c)
	}
	if p.pop("host") != b || p.pop("host") != a || p.pop("host") != nil || p.pop("other") != other {
		t.Error("another order")
	}
}

// Many at once, some of whom leave early, some of whom are cancelled, on a server that
// closes connections as it likes: everybody gets their own answer or an error.
func TestManyAtOnce(t *testing.T) {
	const clients, each = 32, 60
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		text := strings.Repeat(string(body)+"\n", 1+rand.IntN(2000))
		switch rand.IntN(10) {
		case 0:
			w.Header().Set("Connection", "close")
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Length", fmt.Sprint(len(text)+1)) // and then too little
		case 3, 4, 5:
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		}
		half := len(text) / 2
		_, _ = io.WriteString(w, text[:half])
		if rand.IntN(2) == 0 {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, text[half:])
	}))
	t.Cleanup(server.Close)
	tr := newTransport(t, Config{IdlePerHost: clients / 2})
	var wg sync.WaitGroup
	var mu sync.Mutex
	whole := 0
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				ctx, cancel := context.WithCancel(t.Context())
				id := fmt.Sprintf("%d-%d", i, j)
				early := rand.IntN(8)
				if early == 0 {
					go cancel()
				}
				resp, err := tr.RoundTrip(post(t, server.URL, id).WithContext(ctx))
				if err != nil {
					cancel()
					continue
				}
				var in io.Reader = resp.Body
				if early == 1 {
					in = io.LimitReader(in, 100)
				}
				data, err := io.ReadAll(in)
				resp.Body.Close()
				cancel()
				for line := range strings.Lines(string(data)) {
					if l := strings.TrimSuffix(line, "\n"); l != id && (err == nil && early != 1 || !strings.HasPrefix(id, l)) {
						t.Errorf("%q in the answer to %s", l, id)
						return
					}
				}
				if err == nil && early != 1 {
					mu.Lock()
					whole++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if whole < clients*each/4 {
		t.Errorf("only %d answers of %d", whole, clients*each)
	}
}

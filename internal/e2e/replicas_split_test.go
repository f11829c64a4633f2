package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// books record what was asked and answered.
type books struct {
	mu      sync.Mutex
	ran     map[string]int      // how often a call ran, by its key
	answers map[string][]string // what its client was answered
	resumed int                 // answers on another stream than the call's own
	done    int                 // answers of the server's
}

// errand is a call, and where its stream broke off.
type errand struct {
	client      *mcptest.Client
	key         string
	first, last string // events of its stream, "" for none
	kept        bool   // its answer has an event id: it can be read again
}

// begun counts a run of a call.
func (b *books) begun(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran[key]++
}

// answered records an answer to a client.
func (b *books) answered(t *testing.T, key string, m mcptest.Message, resumed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[key] = append(b.answers[key], m.Text)
	if resumed {
		b.resumed++
	}
	if string(m.ID) != fmt.Sprintf("%q", key) {
		t.Errorf("%s is answered %s", key, m.Text)
	}
	if m.Error == nil {
		b.done++
		if got := outcome(m); got != "done "+key || b.ran[key] != 1 {
			t.Errorf("%s, which ran %d times, is answered %s", key, b.ran[key], m.Text)
		}
		return
	}
	var data struct{ Executed string }
	if json.Unmarshal(m.Error.Data, &data) != nil || data.Executed == "no" && b.ran[key] > 0 || data.Executed == "" {
		t.Errorf("%s, which ran %d times, is answered %s", key, b.ran[key], m.Text)
	}
}

// split are replicas with a separate link each to Redis and to the others.
type split struct {
	*several
	ways, links []*faultproxy.Proxy
	books
}

func newSplit(t *testing.T) *split {
	t.Helper()
	s := &split{several: &several{redis: redistest.Start(t)},
		books: books{ran: map[string]int{}, answers: map[string][]string{}}}
	server := scripted(t, statefulServer)
	server.Tools("work")
	server.Tool("work", func(c *mcptest.Call) {
		var key string
		c.Param("arguments|key", &key)
		s.begun(key)
		c.Progress(1)
		select {
		case <-time.After(rand.N(time.Second)): // some answers are due during a fault
			c.Text("done " + key)
		case <-c.Done():
		}
	})
	proxy := func(target string) *faultproxy.Proxy {
		p, err := faultproxy.Start(target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	for here := range 3 {
		address := mcptest.LoopbackAddress(t)
		s.ways, s.links = append(s.ways, proxy(s.redis.Addr)), append(s.links, proxy(address))
		cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: server.URL}}}
		cfg.Sessions.Store, cfg.Sessions.Key = "redis", "0123456789abcdef0123456789abcdef"
		cfg.Sessions.Redis.URL = mcp.Secret("redis://" + s.ways[here].Addr())
		cfg.Replicas.Listen, cfg.Replicas.Advertise = address, s.links[here].Addr()
		cfg.HTTP.StreamAfter = 10 * time.Millisecond
		s.urls = append(s.urls, start(t, cfg))
	}
	return s
}

// anywhere returns a client at any replica.
func (s *split) anywhere(c *mcptest.Client) *mcptest.Client { return s.at(c, rand.IntN(len(s.urls))) }

// work makes calls, each at another replica, until ctx ends, and returns them.
func (s *split) work(ctx context.Context, t *testing.T, c *mcptest.Client, name string) (made []*errand) {
	for n := 0; ctx.Err() == nil; n++ {
		a := &errand{client: c, key: fmt.Sprint(name, "-", n)}
		made = append(made, a)
		params := fmt.Sprintf(`{"name":"up__work","arguments":{"key":%q},"_meta":{"progressToken":1}}`, a.key)
		within, cancel := context.WithTimeout(t.Context(), patience)
		x, err := s.anywhere(c).SendID(within, fmt.Sprintf("%q", a.key), "tools/call", params)
		if err == nil {
			s.read(t, a, x, false, n%2 == 0)
		}
		for err == nil && a.last != "" && s.count(a.key) == 0 && ctx.Err() == nil {
			s.resume(within, t, a, a.last)
		}
		cancel()
		if !s.wentWell(a.key) {
			<-time.After(100 * time.Millisecond) // as clients do that are told when to come back
		}
	}
	return made
}

// count returns how often a call was answered.
func (s *split) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers[key])
}

// finished returns how many calls a server has answered.
func (b *books) finished() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// wentWell reports whether a call succeeded.
func (s *split) wentWell(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers[key]) == 1 && strings.Contains(s.answers[key][0], "done "+key)
}

// read reads a stream to its end or, for a client that leaves, to a point where it can be
// resumed.
func (s *split) read(t *testing.T, a *errand, x *mcptest.Exchange, resumed, leaves bool) {
	defer x.Close()
	for {
		m, err := x.Next()
		if a.first == "" && len(x.EventIDs()) > 0 {
			a.first = x.EventIDs()[0]
		}
		if last := x.LastEventID(); last != "" {
			a.last = last
		}
		switch {
		case err != nil:
			return
		case m.IsResponse() && m.ID != nil && string(m.ID) != "null":
			a.kept = m.EventID != ""
			s.answered(t, a.key, m, resumed)
			return
		case leaves && a.last != "":
			return
		}
	}
}

// resume resumes the stream of a call after an event, at any replica.
func (s *split) resume(ctx context.Context, t *testing.T, a *errand, after string) {
	within, cancel := context.WithTimeout(ctx, 2*time.Second) // a stream without an answer may never end
	defer cancel()
	x, err := s.anywhere(a.client).Get(within, after)
	switch {
	case err != nil:
	case x.Status == http.StatusOK:
		s.read(t, a, x, true, false)
	default:
		if x.Close(); x.Status == http.StatusNotFound {
			t.Errorf("the session of %s is said to be missing", a.key)
			return
		}
		<-within.Done()
	}
}

// TestReplicasSplit: one replica loses its link to the others, another one its link to
// Redis for longer than its lease, and meanwhile Redis hangs for all. No request is
// answered twice, and no client gets another's answer.
func TestReplicasSplit(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	s := newSplit(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var mu sync.Mutex
	var made, recent []*errand
	for i, revision := range []string{statefulClient, statefulClient, statefulClient, statefulClient,
		statefulClient, stateless} {
		c := raw(t, s.urls[i%3], revision)
		clients.Go(func() {
			all := s.work(ctx, t, c, fmt.Sprint("c", i))
			mu.Lock()
			defer mu.Unlock()
			// the streams of the recent calls are still stored
			made, recent = append(made, all...), append(recent, all[max(0, len(all)-20):]...)
		})
	}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-t.Context().Done():
		}
	}
	wait(time.Second)
	s.links[0].BlackHole()
	s.ways[1].BlackHole()
	wait(2 * time.Second)
	s.redis.Hang(t)
	wait(3 * time.Second)
	s.redis.Resume(t)
	wait(9 * time.Second) // more than the rest of a lease
	s.links[0].Pass()
	s.ways[1].Pass()
	wait(2 * time.Second)
	for before, end := s.finished(), time.Now().Add(patience); s.finished() < before+10; wait(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no calls are done after all is well again")
		}
	}
	stop()
	clients.Wait()

	answered, open := 0, 0
	for _, a := range made {
		switch n := s.count(a.key); {
		case n > 1:
			t.Errorf("%s is answered %d times: %s", a.key, n, strings.Join(s.answers[a.key], "\n"))
		case n == 1:
			answered++
		default:
			open++
		}
	}
	if s.resumed == 0 {
		t.Error("no call is answered on another stream")
	}
	t.Logf("%d calls, %d answered, %d done, %d on another stream, %d never", len(made), answered, s.done, s.resumed, open)

	// Reading a stream again returns the same answer, once. An answer that Redis did not take has
	// no event id, and its stream says that it is lost.
	again := 0
	for _, a := range recent {
		if s.count(a.key) != 1 || a.first == "" || !a.kept {
			continue
		}
		again++
		x, err := s.anywhere(a.client).Get(deadline(t), a.first)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := x.Response(); err == nil && m.Text != s.answers[a.key][0] {
			t.Errorf("%s was answered %s, and is answered %s", a.key, s.answers[a.key][0], m.Text)
		}
		x.Close()
	}
	if again == 0 {
		t.Error("no stream is read again")
	}
}

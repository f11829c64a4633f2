package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
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

// TestSessionEnds is the black box of a session's end: whatever happens in a session, its end
// reaches the client, the server and the other replicas.
//
//	       nothing, loading         calling, asking, streaming
//	ended  404; the server is told  the answer ends; then as beside
//	idle   404; the server is told  it is used: it goes on
//	left   goes on at the next one  the answer ends with the replica; then as beside
//	moved  goes on at the next one  the answer ends without a result; then as beside
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		shared bool
		// end makes the end. The sessions, of which first does nothing, have begun at the first
		// replica, and are tried at the last one.
		end func(t *testing.T, w *endings, first *endingSession)
		// over says that an idle session ends, busy what becomes of one that is not idle.
		over, busy bool
	}{
		{name: "ended, in memory", end: endSessions, over: true, busy: true},
		{name: "ended, in Redis", shared: true, end: endSessions, over: true, busy: true},
		{name: "idle, in memory", end: awaitIdle, over: true},
		{name: "idle, in Redis", shared: true, end: awaitIdle, over: true},
		{name: "left", shared: true, end: leaveSessions},
		{name: "moved", shared: true, end: moveSessions},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newEndings(t, tt.shared, strings.HasPrefix(tt.name, "idle"))
			for _, what := range []string{"nothing", "calling", "asking", "streaming", "loading"} {
				w.begin(t, what)
			}
			loaded := w.loading(t)
			tt.end(t, w, w.all[0])
			loaded()
			for _, d := range w.all {
				t.Run(d.what, func(t *testing.T) {
					over := tt.over && d.exchange == nil || tt.busy
					w.check(t, d, over, over || !tt.over)
				})
			}
		})
	}
}

// endings are sessions that do something each, at a gateway alone or at the first of two replicas.
type endings struct {
	server *mcptest.Server
	urls   []string
	stop   func()              // stops the first replica
	redis  []*faultproxy.Proxy // of each replica
	told   chan string         // sessions at the server where a call has ended without an answer
	all    []*endingSession
}

// endingSession is a session that does something.
type endingSession struct {
	what     string
	client   *mcptest.Client
	at       string            // its session at the server
	exchange *mcptest.Exchange // what is under way; nil for nothing
}

func newEndings(t *testing.T, shared, idle bool) *endings {
	w := &endings{server: scripted(t, statefulServer), told: make(chan string, 100)}
	w.server.Tools("where", "hang", "ask")
	w.server.On("tools/call", func(c *mcptest.Call) {
		var tool string
		switch c.Param("name", &tool); tool {
		case "where":
			c.Text(c.Session)
			return
		case "hang":
			c.Progress(1)
			c.Hang()
		case "ask":
			if _, err := c.Ask("elicitation/create", elicitOf("?")); err == nil {
				c.Text("answered")
				return
			}
		}
		w.told <- c.Session
	})
	cfg := gateway.Config{Upstreams: []upstream.Config{{Name: "up", URL: w.server.URL}}}
	cfg.HTTP.StreamAfter, cfg.HTTP.KeepAlive = 10*time.Millisecond, 200*time.Millisecond
	if idle {
		cfg.Sessions.IdleTimeout = 2 * time.Second
	}
	replicas := 1
	var redis *redistest.Server
	if shared {
		replicas, redis = 2, redistest.Start(t)
		cfg.Sessions.Store, cfg.Sessions.Key = "redis", "0123456789abcdef0123456789abcdef"
		cfg.Replicas.Listen = "127.0.0.1:0"
	}
	for range replicas {
		if shared {
			p, err := faultproxy.Start(redis.Addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			w.redis = append(w.redis, p)
			cfg.Sessions.Redis.URL = mcp.Secret("redis://" + p.Addr())
		}
		g, stop, err := run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		stop = sync.OnceFunc(stop)
		t.Cleanup(stop)
		w.urls = append(w.urls, g.URL())
		if w.stop == nil {
			w.stop = stop
		}
	}
	return w
}

// begin begins a session, and what it does.
func (w *endings) begin(t *testing.T, what string) {
	t.Helper()
	d := &endingSession{what: what, client: rawWith(t, w.urls[0], statefulClient, askable)}
	d.at = outcome(mustCall(t, d.client, "tools/call", `{"name":"up__where"}`))
	var err error
	switch what {
	case "calling":
		d.exchange, err = d.client.Send(t.Context(), "tools/call", `{"name":"up__hang","_meta":{"progressToken":1}}`)
		if err == nil {
			_, err = d.exchange.Until("notifications/progress")
		}
	case "asking":
		d.exchange, err = d.client.Send(t.Context(), "tools/call", `{"name":"up__ask"}`)
		if err == nil {
			_, err = d.exchange.Until("elicitation/create")
		}
	case "streaming":
		d.exchange, err = d.client.Get(t.Context(), "")
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if d.exchange != nil {
		t.Cleanup(d.exchange.Close)
	}
	w.all = append(w.all, d)
}

// last returns the session's client at the last replica.
func (w *endings) last(d *endingSession) *mcptest.Client {
	c := mcptest.NewClient(w.urls[len(w.urls)-1], d.client.Revision)
	c.Name, c.Caps, c.Session, c.HTTP = d.client.Name, d.client.Caps, d.client.Session, d.client.HTTP
	return c
}

// loading begins a request at the last replica, which has to find out where the session is while it
// ends. The request is answered with a result, with 404, or with an error that says whether it ran.
func (w *endings) loading(t *testing.T) (done func()) {
	d := w.all[len(w.all)-1]
	if len(w.redis) > 1 {
		w.redis[1].Delay(50 * time.Millisecond)
	}
	var x *mcptest.Exchange
	var err error
	var answer string
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if x, err = w.last(d).Send(t.Context(), "tools/call", `{"name":"up__where"}`); err == nil {
			defer x.Close()
			answer = x.Text()
		}
	}()
	return func() {
		select {
		case <-answered:
		case <-deadline(t).Done():
			t.Fatal("a request that came while its session ended has no answer")
		}
		if len(w.redis) > 1 {
			w.redis[1].Pass()
		}
		good := err == nil && (x.Status == http.StatusNotFound || strings.Contains(answer, d.at) ||
			strings.Contains(answer, `"executed":"`))
		if !good {
			t.Errorf("a request that came while its session ended: %+v %s, %v", x, answer, err)
		}
	}
}

func endSessions(t *testing.T, w *endings, _ *endingSession) {
	for _, d := range w.all {
		if status, err := w.last(d).Delete(deadline(t)); err != nil || status >= 300 {
			t.Errorf("ending the session that does %s: %d, %v", d.what, status, err)
		}
	}
}

func awaitIdle(t *testing.T, w *endings, first *endingSession) { w.awaitDelete(t, first.at) }

func leaveSessions(_ *testing.T, w *endings, _ *endingSession) { w.stop() } // cuts off what runs after a while

// moveSessions lets the other replica take over while the first one goes on.
func moveSessions(t *testing.T, w *endings, _ *endingSession) {
	w.redis[0].BlackHole()
	for _, d := range w.all {
		eventually(t, "the other replica takes over", func() bool {
			m, _, err := w.last(d).Call(deadline(t), "tools/call", `{"name":"up__where"}`)
			return err == nil && outcome(m) == d.at
		})
	}
	w.redis[0].Pass()
}

// awaitDelete waits until the server is told that a session at it has ended.
func (w *endings) awaitDelete(t *testing.T, at string) {
	t.Helper()
	if _, err := w.server.Await(deadline(t), "DELETE", func(r mcptest.Received) bool {
		return r.HTTP == http.MethodDelete && r.Session == at
	}); err != nil {
		t.Errorf("the server is not told: %v", err)
	}
}

// check looks at a session after the end. over says that the session has ended, done that what was
// under way has.
func (w *endings) check(t *testing.T, d *endingSession, over, done bool) {
	if d.exchange != nil && done {
		w.checkEnded(t, d)
	}
	c := w.last(d)
	if over {
		w.awaitDelete(t, d.at)
		x, err := c.Send(deadline(t), "tools/call", `{"name":"up__where"}`)
		if err != nil || x.Status != http.StatusNotFound {
			t.Fatalf("the session that has ended is answered %+v, %v", x, err)
		}
		x.Close()
		return
	}
	if m := mustCall(t, c, "tools/call", `{"name":"up__where"}`); outcome(m) != d.at {
		t.Errorf("the session goes on as %s, was %s", m.Text, d.at)
	}
	if slices.ContainsFunc(w.server.Received("DELETE"), func(r mcptest.Received) bool { return r.Session == d.at }) {
		t.Error("the server was told that a session has ended which goes on")
	}
}

// checkEnded checks that an exchange ends without a result, and that the server was told.
func (w *endings) checkEnded(t *testing.T, d *endingSession) {
	ended := make(chan error, 1)
	go func() {
		for {
			m, err := d.exchange.Next()
			if err != nil {
				ended <- nil
				return
			}
			if m.Result != nil {
				ended <- fmt.Errorf("the answer is %s", m.Text)
				return
			}
		}
	}()
	if err := receive(t, "the end of "+d.what, ended); err != nil {
		t.Error(err)
	}
	if d.what == "streaming" {
		return
	}
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		select {
		case at := <-w.told:
			if at == d.at {
				return
			}
			w.told <- at // of another session
		case <-within.Done():
			t.Fatal("the call goes on at the server")
		}
	}
}

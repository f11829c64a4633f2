package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// load is what clients do while replicas are replaced, and the record of it.
type load struct {
	*several
	workers        []*worker
	mixed          bool // replicas of two versions: the requestState of one is refused by the other
	calls, retried atomic.Int64
	clients        atomic.Int64
}

// run calls a tool again and again until ctx ends: mostly echo, sometimes one that asks.
// Every answer must be right and come from a call that ran once.
func (l *load) run(ctx context.Context, t *testing.T, c *mcptest.Client, name string) {
	l.clients.Add(1)
	for n := 0; ctx.Err() == nil; n++ {
		tool, key := "old__echo", fmt.Sprint(name, "-", n)
		want := "echo " + key
		switch asks := c.Revision.Stateful || !l.mixed; {
		case n%5 == 1:
			tool = "new__echo"
		case n%5 == 3 && asks:
			tool, want = "old__ask", "answered "+key+" of "+key
		}
		m, err := l.converse(t, c, tool, key)
		if ran := l.ran(key); err != nil || textOf(m) != want || ran != 1 {
			t.Errorf("%s %s ran %d times: %s %v", tool, key, ran, m.Text, err)
			return
		}
		l.calls.Add(1)
	}
}

// ran returns how often a call came to the servers.
func (l *load) ran(key string) (runs int) {
	for _, w := range l.workers {
		runs += w.ran(key)
	}
	return runs
}

// persist makes a request of a call. While the error allows it, persist repeats the request
// after a pause, ten times at most. It checks that calls which did not run, according to
// the error, never came to the servers.
func (l *load) persist(t *testing.T, key string,
	request func() (mcptest.Message, error)) (m mcptest.Message, err error) {
	before := l.ran(key)
	for range 10 {
		m, err = request()
		var data struct {
			Retryable    bool
			Executed     string
			RetryAfterMs int
		}
		if err != nil || m.Error == nil || json.Unmarshal(m.Error.Data, &data) != nil || !data.Retryable {
			return m, err
		}
		if ran := l.ran(key); data.Executed != "no" || ran != before {
			return m, fmt.Errorf("it ran %d times and can be made again, it says", ran-before)
		}
		l.retried.Add(1)
		<-time.After(max(100*time.Millisecond, time.Duration(data.RetryAfterMs)*time.Millisecond))
	}
	return m, err
}

// converse makes a call and answers its questions, in the way of the client's revision.
func (l *load) converse(t *testing.T, c *mcptest.Client, tool, key string) (mcptest.Message, error) {
	answer := fmt.Sprintf(`{"action":"accept","content":{"a":"of %s"}}`, key)
	if !c.Revision.Stateful {
		request := func(more string) (mcptest.Message, error) {
			return l.persist(t, key, func() (mcptest.Message, error) {
				m, _, err := c.Call(deadline(t), "tools/call", strings.TrimSuffix(call(tool, key), "}")+more+"}")
				return m, err
			})
		}
		m, err := request("")
		var state string
		var requests map[string]json.RawMessage
		if err != nil || !m.Value("requestState", &state) || !m.Value("inputRequests", &requests) {
			return m, err
		}
		for q := range requests {
			m, err = request(fmt.Sprintf(`,"inputResponses":{%q:%s},"requestState":%q`, q, answer, state))
		}
		return m, err
	}
	return l.persist(t, key, func() (mcptest.Message, error) {
		x, err := c.Send(deadline(t), "tools/call", call(tool, key))
		if err != nil {
			return mcptest.Message{}, err
		}
		defer x.Close()
		for {
			m, err := x.Next()
			switch {
			case err != nil:
				return m, fmt.Errorf("status %d, events %q: %w", x.Status, x.EventIDs(), err)
			case m.IsResponse():
				return m, nil
			case m.ID != nil:
				if err := c.Answer(deadline(t), m.ID, answer); err != nil {
					return m, err
				}
			}
		}
	})
}

// wantFewRetries checks that the calls that had to be made again are few for as many restarts.
func (l *load) wantFewRetries(t *testing.T, restarts int) {
	t.Helper()
	retried, most := l.retried.Load(), l.clients.Load()*int64(restarts)
	t.Logf("of %d calls %d had to be made again", l.calls.Load(), retried)
	if retried > most {
		t.Errorf("it is allowed once for each client and restart, %d times", most)
	}
}

// listen keeps the GET stream of a session open until ctx ends, reopens it when it ends,
// and counts the events.
func (l *load) listen(ctx context.Context, t *testing.T, c *mcptest.Client, heard chan<- string) {
	last := ""
	for ctx.Err() == nil {
		x, err := c.Get(ctx, last)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("the stream: %v", err)
			}
			return
		}
		if x.Status != http.StatusOK && x.Status != http.StatusServiceUnavailable {
			t.Errorf("the stream: status %d %s", x.Status, x.Text())
			x.Close()
			return
		}
		if !x.Stream { // the answer says when to come back
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		for x.Stream {
			m, err := x.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && ctx.Err() == nil {
					t.Errorf("the stream is cut off: %v", err)
				}
				break
			}
			last = m.EventID
			select {
			case heard <- m.Method:
			default:
			}
		}
		x.Close()
	}
}

// TestRollingRestart replaces three replicas one after the other while clients of both
// eras make calls. No answer is lost or wrong, no call runs twice, and errors are rare and
// always allow the client to repeat the call.
func TestRollingRestart(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	old, newer := newWorker(t, serverRev), newWorker(t, statelessRev)
	old.Discard()
	newer.Discard()
	s := replicate(t, fmt.Sprintf("shutdown_delay: 1s\nupstreams:\n- {name: old, url: %q}\n- {name: new, url: %q}\n",
		old.URL, newer.URL), "old", "new")
	l := &load{several: s, workers: []*worker{old, newer}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range 2 {
		for _, revision := range []string{serverRev, clientRev, statelessRev} {
			c := s.client(t, revision, askable)
			all.Go(func() { l.run(ctx, t, c, fmt.Sprint(revision, "-", i)) })
		}
	}
	c := s.client(t, clientRev, askable)
	must(t, "a subscription", c, "resources/subscribe", `{"uri":"old+test://r"}`)
	heard := make(chan string, 100)
	all.Go(func() { l.listen(ctx, t, c, heard) })

	for i, r := range s.replicas {
		// These calls run there when the replica is told to end.
		held, asked := fmt.Sprint("held-", i), fmt.Sprint("asked-", i)
		x := begin(t, s.at(c, i), held, "old__wait", "notifications/progress")
		q := begin(t, s.at(c, i), asked, "old__ask", "elicitation/create")
		r.signal(t, syscall.SIGTERM)
		r.log.await(t, "msg=stopping")
		eventually(t, "the replica is not ready any more", func() bool { _, ready := r.ready(deadline(t)); return !ready })
		if err := c.Answer(deadline(t), q.question, fmt.Sprintf(`{"action":"accept","content":{"a":"of %s"}}`,
			asked)); err != nil {
			t.Errorf("an answer to the replica that ends: %v", err)
		}
		old.release(held)
		for want, x := range map[string]begun{"done " + held: x, "answered " + asked + " of " + asked: q} {
			m, err := x.Response()
			if ran := l.ran(x.id); err != nil || textOf(m) != want || ran != 1 {
				t.Errorf("a call that ran %d times at replica %d: %s %v", ran, i, m.Text, err)
			}
		}
		if code := r.wait(t); code != 0 {
			t.Errorf("replica %d ended with code %d:\n%s", i, code, r.log)
		}
		r.start(t)
		before := l.calls.Load()
		eventually(t, "calls go on", func() bool { return l.calls.Load() > before+20 || t.Failed() })
	}
	// The session from before the restarts is still subscribed.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := deadline(t); ; {
		old.Push("notifications/resources/updated", `{"uri":"test://r"}`)
		select {
		case method := <-heard:
			if method != "notifications/resources/updated" {
				continue
			}
		case <-tick.C:
			continue
		case <-end.Done():
			t.Error("the subscription is lost")
		}
		break
	}
	cancel()
	all.Wait()
	l.wantFewRetries(t, len(s.replicas))
}

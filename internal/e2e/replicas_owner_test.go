package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// desktop is a server whose sessions only one replica can have: a process, or an event
// stream. It counts the calls in each.
type desktop struct {
	*mcptest.Server
	config upstream.Config
	began  chan string // sessions with a waiting call
	ended  chan string

	mu     sync.Mutex // guards the fields below
	counts map[string]int
}

// desktops runs a test with a desktop of each kind.
func desktops(t *testing.T, test func(t *testing.T, d *desktop)) {
	for kind, start := range map[string]func(*wire.Revision) *mcptest.Server{"stdio": mcptest.NewServer, "HTTP+SSE": mcptest.NewSSEServer} {
		t.Run(kind, func(t *testing.T) {
			d := &desktop{Server: start(wire.Lookup(statefulServer)), counts: make(map[string]int),
				began: make(chan string, 100), ended: make(chan string, 100)}
			t.Cleanup(d.Close)
			d.config = upstream.Config{Name: "up", URL: d.URL}
			if kind == "stdio" {
				address, err := d.ListenLines()
				if err != nil {
					t.Fatal(err)
				}
				d.config = upstream.Config{Name: "up", Command: []string{os.Args[0], linesCommand, address}}
			}
			d.Offers(`{"resources":{"subscribe":true},"logging":{}}`)
			d.Tools("add", "wait", "ask")
			d.On("tools/call", func(c *mcptest.Call) {
				var tool string
				switch c.Param("name", &tool); tool {
				case "add":
					c.Text(fmt.Sprint(d.add(c.Session)))
				case "wait":
					c.Progress(1)
					d.began <- c.Session
					c.Hang()
					d.ended <- c.Session
				case "ask":
					d.ask(c)
				}
			})
			d.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"uri":"test://r","name":"r"}]}`) })
			d.On("resources/subscribe", func(c *mcptest.Call) { c.Result(`{}`) })
			d.On("logging/setLevel", func(c *mcptest.Call) { c.Result(`{}`) })
			test(t, d)
		})
	}
}

// ask asks, and returns the answer and the counts before and after.
func (d *desktop) ask(c *mcptest.Call) {
	n := d.add(c.Session)
	answer, err := c.Ask("elicitation/create", `{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}`)
	if err != nil {
		d.ended <- c.Session
		return
	}
	var action string
	answer.Value("action", &action)
	c.Text(fmt.Sprint(action, " ", n, " ", d.add(c.Session)))
}

func (d *desktop) add(session string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts[session]++
	return d.counts[session]
}

// used returns the number of sessions with any count.
func (d *desktop) used() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.counts)
}

func (d *desktop) replicas(t *testing.T) *several {
	t.Helper()
	return replicated(t, func(cfg *gateway.Config) { cfg.Upstreams = []upstream.Config{d.config} })
}

const (
	toAdd  = `{"name":"up__add","arguments":{}}`
	toWait = `{"name":"up__wait","arguments":{},"_meta":{"progressToken":"p"}}`
	toAsk  = `{"name":"up__ask","arguments":{}}`
)

// countAt uses the client's session, and returns how often that has happened.
func countAt(t *testing.T, c *mcptest.Client) (n int) {
	t.Helper()
	text := outcome(mustCall(t, c, "tools/call", toAdd))
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Errorf("counted as %q", text)
	}
	return n
}

// wantCount checks the count of uses of the session.
func wantCount(t *testing.T, what string, c *mcptest.Client, want int) {
	t.Helper()
	if m := mustCall(t, c, "tools/call", toAdd); outcome(m) != fmt.Sprint(want) {
		t.Errorf("%s: counted as %s, want %d", what, outcome(m), want)
	}
}

// TestReplicasShareProcesses: one replica has a process or an event stream for a client,
// and the client's calls at all replicas use it.
func TestReplicasShareProcesses(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	desktops(t, func(t *testing.T, d *desktop) {
		r := d.replicas(t)
		t.Run("calls", func(t *testing.T) { hasOneProcess(t, d, r) })
		t.Run("questions", func(t *testing.T) { asksFromOneProcess(t, d, r) })
		t.Run("cancelling", func(t *testing.T) { cancelsInOneProcess(t, d, r) })
		t.Run("listening", func(t *testing.T) { hearsOneProcess(t, d, r) })
	})
}

// hasOneProcess: one process or event stream gets all calls of a client, whichever replicas
// they arrive at. Each client has its own.
func hasOneProcess(t *testing.T, d *desktop, r *several) {
	for i, revision := range []string{statefulServer, statefulClient, stateless} {
		for _, caps := range []string{"{}", askable} {
			c := rawWith(t, r.url, revision, caps)
			before := d.used()
			for n := range 9 {
				wantCount(t, fmt.Sprintf("client %s %s at replica %d", revision, caps, (n+i)%3), r.at(c, (n+i)%3), n+1)
			}
			if got := d.used() - before; got != 1 {
				t.Errorf("client %s %s: %d sessions", revision, caps, got)
			}
		}
	}
	for _, revision := range []string{statefulClient, stateless} { // all at the same time
		c := rawWith(t, r.url, revision, `{"sampling":{}}`)
		before := d.used()
		var all sync.WaitGroup
		var last atomic.Int64
		for n := range 12 {
			all.Go(func() {
				m, _, err := r.at(c, n%3).Call(deadline(t), "tools/call", toAdd)
				if err != nil || m.Error != nil {
					t.Errorf("%s %v", m.Text, err)
				}
				if outcome(m) == "12" {
					last.Add(1)
				}
			})
		}
		all.Wait()
		if got := d.used() - before; got != 1 || last.Load() != 1 {
			t.Errorf("client %s: %d sessions", revision, got)
		}
	}
}

// asksFromOneProcess: a question is asked where the call arrived, and its answer reaches
// the process from any replica.
func asksFromOneProcess(t *testing.T, d *desktop, r *several) {
	for _, revision := range []string{statefulClient, stateless} {
		c := rawWith(t, r.url, revision, askable)
		before := countAt(t, r.at(c, 0)) // this replica has the process
		for n := range 6 {               // each is asked at another replica
			m, asked := converse(t, c, "tools/call", toAsk, usual)
			if want := fmt.Sprint("accept ", before+2*n+1, " ", before+2*n+2); outcome(m) != want || len(asked) != 1 {
				t.Errorf("%s: after %d questions %s, want %s", revision, len(asked), m.Text, want)
			}
		}
	}
	// Two clients without sessions count as one: the answer arrives at a third replica.
	c := rawWith(t, r.url, stateless, askable)
	m := mustCall(t, r.at(c, 1), "tools/call", toAsk)
	var state string
	var requests map[string]any
	if !m.Value("requestState", &state) || !m.Value("inputRequests", &requests) || len(requests) != 1 {
		t.Fatalf("no question: %s", m.Text)
	}
	for key := range requests {
		retry := strings.TrimSuffix(toAsk,
			"}") + fmt.Sprintf(`,"inputResponses":{%q:{"action":"decline"}},"requestState":%q}`, key, state)
		if m := mustCall(t, r.at(c, 2), "tools/call", retry); !strings.HasPrefix(outcome(m), "decline") {
			t.Errorf("the answer at a third replica: %s", m.Text)
		}
		if m, _, err := r.at(c, 0).Call(deadline(t), "tools/call", retry); err != nil || m.Error == nil {
			t.Errorf("the same answer again: %s %v", m.Text, err)
		}
	}
}

// cancelsInOneProcess: a call in a process of another replica reports its progress, and
// ends when its client cancels it.
func cancelsInOneProcess(t *testing.T, d *desktop, r *several) {
	c := raw(t, r.url, statefulClient)
	countAt(t, r.at(c, 0))
	for here := range 3 {
		x, err := r.at(c, here).SendID(deadline(t), `"it"`, "tools/call", toWait)
		if err != nil {
			t.Fatal(err)
		}
		session := receive(t, "the call's start", d.began)
		if m, err := x.Until("notifications/progress"); err != nil {
			t.Errorf("progress: %s %v", m.Text, err)
		}
		if status, err := r.at(c, (here+1)%3).Notify(deadline(t), "notifications/cancelled",
			`{"requestId":"it"}`); status != http.StatusAccepted || err != nil {
			t.Fatalf("cancelling: %d %v", status, err)
		}
		if got := receive(t, "the call's end", d.ended); got != session {
			t.Errorf("another call has ended")
		}
		x.Close()
	}
	fresh := raw(t, r.url, stateless)
	countAt(t, r.at(fresh, 0))
	x, err := r.at(fresh, 1).Send(deadline(t), "tools/call", toWait)
	if err != nil {
		t.Fatal(err)
	}
	receive(t, "the call's start", d.began)
	x.Close() // this cancels it
	receive(t, "the call's end", d.ended)

	// A question that nobody will answer ends with its call.
	asking := rawWith(t, r.url, statefulClient, askable)
	countAt(t, r.at(asking, 0))
	y, err := r.at(asking, 1).SendID(deadline(t), `"asked"`, "tools/call", toAsk)
	if err != nil {
		t.Fatal(err)
	}
	defer y.Close()
	if m, err := y.Until("elicitation/create"); err != nil {
		t.Fatalf("%s %v", m.Text, err)
	}
	if status, err := r.at(asking, 2).Notify(deadline(t), "notifications/cancelled",
		`{"requestId":"asked"}`); status != http.StatusAccepted || err != nil {
		t.Fatalf("cancelling: %d %v", status, err)
	}
	cancelled, err := d.Await(deadline(t), "the end of the question", func(m mcptest.Received) bool {
		return m.IsResponse() || m.Method == "notifications/cancelled" && strings.Contains(m.Text, "nobody answered")
	})
	if err != nil {
		t.Errorf("%s %v", cancelled.Text, err)
	}

	// The process ends with the client's session.
	z, err := r.at(c, 2).Send(deadline(t), "tools/call", toWait)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	receive(t, "the call's start", d.began)
	if status, err := r.at(c, 1).Delete(deadline(t)); status != http.StatusNoContent || err != nil {
		t.Fatalf("DELETE: %d %v", status, err)
	}
	receive(t, "the end of the process", d.ended)
}

// hearsOneProcess: a client that listens at any replica gets what its process sends outside
// of calls, as soon as the client was told that it listens.
func hearsOneProcess(t *testing.T, d *desktop, r *several) {
	c := raw(t, r.url, statefulClient)
	countAt(t, r.at(c, 0))
	for here := range 3 {
		stream, err := r.at(c, here).Get(deadline(t), "")
		if err != nil {
			t.Fatal(err)
		}
		mustCall(t, r.at(c, (here+1)%3), "resources/subscribe", `{"uri":"up+test://r"}`)
		d.Update("test://r")
		m, err := stream.Until("notifications/resources/updated")
		if err != nil || !strings.Contains(m.Text, "up+test://r") {
			t.Errorf("listening at replica %d: %s %v", here, m.Text, err)
		}
		mustCall(t, r.at(c, (here+2)%3), "resources/unsubscribe", `{"uri":"up+test://r"}`)
		stream.Close()
	}
	var sessions []string
	for _, m := range d.Received("resources/subscribe") {
		if !slices.Contains(sessions, m.Session) {
			sessions = append(sessions, m.Session)
		}
	}
	if len(sessions) != 1 {
		t.Errorf("subscribed in %d sessions", len(sessions))
	}
	fresh := raw(t, r.url, stateless)
	countAt(t, r.at(fresh, 0))
	x, err := r.at(fresh, 2).Send(deadline(t), "subscriptions/listen",
		`{"notifications":{"resourceSubscriptions":["up+test://r"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if m, err := x.Until("notifications/subscriptions/acknowledged"); err != nil ||
		!strings.Contains(m.Text, "up+test://r") {
		t.Fatalf("%s %v", m.Text, err)
	}
	d.Update("test://r")
	if m, err := x.Until("notifications/resources/updated"); err != nil {
		t.Errorf("%s %v", m.Text, err)
	}
}

// TestReplicasThatStopGiveProcessesUp: the process of a replica that stops ends with it,
// and the next call gets a new one at any other replica.
func TestReplicasThatStopGiveProcessesUp(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	desktops(t, func(t *testing.T, d *desktop) {
		r := d.replicas(t)
		u, stop := r.another(t)
		var clients []*mcptest.Client
		for _, revision := range []string{statefulClient, stateless} {
			c := raw(t, u, revision)
			wantCount(t, "at the owner", c, 1)
			for n := range 3 {
				wantCount(t, "before the stop", r.at(c, n), n+2)
			}
			clients = append(clients, c)
		}
		stop()
		for _, c := range clients {
			for n := range 6 {
				wantCount(t, "after the stop", r.at(c, n%3), n+1)
			}
		}
	})
}

// TestProcessesWithoutRedis: while Redis is away, a process with a known owner stays
// in use. For a client without one, each replica opens its own; afterwards one replica has
// it again.
func TestProcessesWithoutRedis(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	desktops(t, func(t *testing.T, d *desktop) {
		r := d.replicas(t)
		c := raw(t, r.url, statefulClient)
		for n := range 3 {
			wantCount(t, "with Redis", r.at(c, n), n+1)
		}
		r.redis.Kill()
		for n := range 3 {
			wantCount(t, "without Redis", r.at(c, n), n+4)
		}
		fresh := raw(t, r.url, stateless)
		for n := range 3 {
			wantCount(t, "new without Redis", r.at(fresh, n), 1)
		}
		r.redis.Restart(t)
		for before, end := 0, time.Now().Add(patience); ; {
			n := countAt(t, r.at(fresh, 0))
			countAt(t, r.at(fresh, 1))
			if before = countAt(t, r.at(fresh, 2)); before == n+2 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("with Redis again: counted as %d, then as %d", n, before)
			}
		}
	})
}

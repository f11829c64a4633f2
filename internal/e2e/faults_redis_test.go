package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/faultproxy"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// redisFault is a temporary fault of Redis.
type redisFault struct {
	name       string
	begin, end func(*testing.T, *outage)
	// lost: Redis is empty afterwards. answers: during the fault it still executes what
	// adds nothing. late: it executes commands after the client has given up.
	lost, answers, late bool
}

func redisFaults() []redisFault {
	return []redisFault{
		{name: "killed, and back without data", lost: true,
			begin: func(_ *testing.T, s *outage) { s.redis.Kill() },
			end:   func(t *testing.T, s *outage) { s.redis.Restart(t) }},
		{name: "hanging", late: true,
			begin: func(t *testing.T, s *outage) { s.redis.Hang(t) },
			end:   func(t *testing.T, s *outage) { s.redis.Resume(t) }},
		{name: "slow", late: true,
			begin: func(_ *testing.T, s *outage) { s.eachLink(func(p *faultproxy.Proxy) { p.Delay(2 * time.Second) }) },
			end:   func(_ *testing.T, s *outage) { s.eachLink((*faultproxy.Proxy).Pass) }},
		{name: "read-only",
			begin: func(t *testing.T, s *outage) {
				s.other.Follow(t, s.redis) // it has the data when it takes over
				s.other.Lead(t)
				s.redis.Follow(t, s.other)
			},
			end: func(t *testing.T, s *outage) { s.redis.Lead(t) }},
		{name: "full", answers: true,
			begin: func(t *testing.T, s *outage) { s.set(t, "maxmemory", "1") },
			end:   func(t *testing.T, s *outage) { s.set(t, "maxmemory", "0") }},
	}
}

// outage is three replicas, and what clients of both eras have started there.
type outage struct {
	*several
	other *redistest.Server
	links []*faultproxy.Proxy // between each replica and Redis

	known *mcptest.Client // with a session at replica 0, known to all replicas
	free  *mcptest.Client // without a session
	// Calls that wait at replica 0 for an answer, which will arrive at replica 0 and at
	// replica 1.
	here, there         *waiting
	freeHere, freeThere shown
	approval            shown // asked by replica 0
}

// waiting is a call of a stateful client that waits for the answer to a question.
type waiting struct {
	*mcptest.Exchange
	question mcptest.Message
}

// newOutage starts an outage with a fault proxy between each replica and Redis.
func newOutage(t *testing.T) *outage {
	t.Helper()
	server := redistest.Start(t)
	var links []*faultproxy.Proxy
	s := newOutageBy(t, server, func(int) string {
		link, err := faultproxy.Start(server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(link.Close)
		links = append(links, link)
		return "redis://" + link.Addr()
	})
	s.links = links
	return s
}

func newOutageBy(t *testing.T, server *redistest.Server, way func(replica int) string) *outage {
	t.Helper()
	s := &outage{other: redistest.Start(t)}
	plain := scripted(t, statefulServer)
	plain.Tools("do")
	plain.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	newer := scripted(t, stateless)
	newer.Tools("do")
	newer.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	s.several = replicatedBy(t, server, way, func(cfg *gateway.Config) {
		for _, name := range []string{"plain", "guarded", "short"} {
			cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: plain.URL})
		}
		cfg.Upstreams[len(cfg.Upstreams)-1].Disclosure.Mode = disclosure.ModeProgressive
		// no session: any replica serves it
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "few", URL: newer.URL})
		cfg.Limits = policy.Limits{{Name: "few", What: []string{"tools:few/*"},
			Rate: policy.Rate{Count: 2, Per: 24 * time.Hour}}}
		cfg.Policy = policy.Config{Default: policy.DefaultAllow,
			Rules: []policy.Rule{{Name: "with a yes", Ask: []string{"tools:guarded/*"}}}}
	})
	s.known, s.free = rawWith(t, s.urls[0], statefulClient, askable), rawWith(t, s.url, stateless, askable)
	return s
}

func (s *outage) eachLink(do func(*faultproxy.Proxy)) {
	for _, link := range s.links {
		do(link)
	}
}

// set changes a setting of Redis.
func (s *outage) set(t *testing.T, name, value string) {
	t.Helper()
	client := s.redis.Client()
	defer client.Close()
	if err := client.ConfigSet(deadline(t), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// asker returns the server that keeps its calls open while it asks.
func (s *outage) asker() *inquirer {
	for _, server := range s.servers {
		if server.revision.Name == statefulServer {
			return server
		}
	}
	panic("there is no such server")
}

// prepare begins everything.
func (s *outage) prepare(t *testing.T) {
	t.Helper()
	asker := s.asker()
	asker.asks([]inquiry{aForm})
	for here := range 3 {
		s.called(t, "before", s.at(s.known, here), "plain")
	}
	s.here, s.there = s.ask(t), s.ask(t)
	at0 := s.at(s.free, 0)
	s.freeHere, s.freeThere = show(t, at0, "tools/call", asker.params("tools/call"), yes),
		show(t, at0, "tools/call", asker.params("tools/call"), yes)
	s.approval = show(t, at0, "tools/call", `{"name":"guarded__do"}`, `{"action":"accept","content":{"approve":true}}`)
	s.called(t, "within the limit", at0, "few")
	mustCall(t, s.at(s.known, 0), "resources/read", `{"uri":"`+describedAt+`?tools=short__do"}`)
	s.called(t, "described", s.at(s.known, 0), "short")
}

// ask makes a call at replica 0 that waits for an answer.
func (s *outage) ask(t *testing.T) *waiting {
	t.Helper()
	x, err := s.at(s.known, 0).Send(deadline(t), "tools/call", s.asker().params("tools/call"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	q, err := x.Until(aForm.Method)
	if err != nil {
		t.Fatal(err)
	}
	return &waiting{x, q}
}

// called expects a tool call to succeed.
func (s *outage) called(t *testing.T, what string, c *mcptest.Client, server string) {
	t.Helper()
	if m, _, err := c.Call(deadline(t), "tools/call", `{"name":"`+server+`__do"}`); err != nil || outcome(m) != "done" {
		t.Errorf("%s: %s, %v", what, m.Text, err)
	}
}

// unavailable requires the answer for a store that is away: nothing was done, try again.
func unavailable(t *testing.T, what string, x *mcptest.Exchange) {
	t.Helper()
	defer x.Close()
	m, err := x.Response()
	if err != nil || m.Error == nil || m.Error.Code != 50303 ||
		!strings.Contains(string(m.Error.Data), `"executed":"no"`) ||
		!strings.Contains(string(m.Error.Data), `"retryable":true`) {
		t.Errorf("%s: status %d: %s, %v", what, x.Status, m.Text, err)
	}
	if x.Status == http.StatusServiceUnavailable && x.Header.Get("Retry-After") == "" {
		t.Errorf("%s: no Retry-After", what)
	}
}

func (s *outage) send(t *testing.T, c *mcptest.Client, method, params string) *mcptest.Exchange {
	t.Helper()
	x, err := c.Send(deadline(t), method, params)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// begin asks a replica for a new session.
func (s *outage) begin(t *testing.T, here int) *mcptest.Exchange {
	t.Helper()
	return s.send(t, unopened(t, s.urls[here], statefulClient), "initialize",
		`{"protocolVersion":"`+statefulClient+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)
}

// answered answers a question at a replica and requires the call to succeed. An answer that
// could not be delivered is refused, and sent again.
func (s *outage) answered(t *testing.T, here int, w *waiting) {
	t.Helper()
	eventually(t, "an answer is taken", func() bool {
		x, err := s.at(s.known, here).Post(deadline(t), answerTo(w.question, yes))
		if err != nil {
			t.Fatal(err)
		}
		x.Close()
		if x.Status != http.StatusAccepted && (x.Status != http.StatusServiceUnavailable || here == 0) {
			t.Fatalf("an answer at replica %d: status %d", here, x.Status)
		}
		return x.Status == http.StatusAccepted
	})
	if m, err := w.Response(); err != nil || outcome(m) != yes {
		t.Errorf("a question that is answered at replica %d: %s, %v", here, m.Text, err)
	}
}

// allowance returns how many of so many calls a limit lets through at a replica.
func (s *outage) allowance(t *testing.T, here int) (through int) {
	t.Helper()
	for range 4 {
		m, _, err := s.at(s.free, here).Call(deadline(t), "tools/call", `{"name":"few__do"}`)
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Error == nil:
			through++
		case m.Error.Code != 42901:
			t.Errorf("a limit: %s", m.Text)
		}
	}
	return through
}

// TestRedisFaults: Redis fails for all three replicas, and recovers.
func TestRedisFaults(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	for _, f := range redisFaults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newOutage(t)
			s.prepare(t)
			f.begin(t, s)
			s.during(t, f)
			f.end(t, s)
			s.after(t, f)
		})
	}
}

// during checks what clients see during the fault.
func (s *outage) during(t *testing.T, f redisFault) {
	t.Helper()
	for here := range 3 {
		s.called(t, fmt.Sprint("a known session at replica ", here), s.at(s.known, here), "plain")
		s.called(t, fmt.Sprint("without a session at replica ", here), s.at(s.free, here), "plain")
	}
	unavailable(t, "a new session", s.begin(t, 0))
	unavailable(t, "a change of a session", s.send(t, s.at(s.known, 1), "logging/setLevel", `{"level":"debug"}`))
	s.called(t, "a tool that was described at another replica", s.at(s.known, 1), "short")
	for here := range 3 {
		if n := s.allowance(t, here); n != 2 {
			t.Errorf("replica %d let %d calls through: each counts for itself, want 2", here, n)
		}
	}
	s.answered(t, 0, s.here)
	if m, _, err := s.at(s.free, 2).Call(deadline(t), "tools/call", s.freeHere.retry); err != nil || outcome(m) != yes {
		t.Errorf("an answered question without a session, at another replica: %s, %v", m.Text, err)
	}
	if f.answers || f.late {
		return
	}
	unavailable(t, "an approval", s.send(t, s.at(s.free, 0), "tools/call", s.approval.retry))
}

// after checks everything after the fault.
func (s *outage) after(t *testing.T, f redisFault) {
	t.Helper()
	for here := range 3 {
		s.heals(t, here)
	}
	if f.lost {
		s.afterLoss(t)
		return
	}
	for here := range 3 {
		mustCall(t, s.at(s.known, here), "logging/setLevel", `{"level":"debug"}`) // the session exists and can change
	}
	s.answered(t, 1, s.there)
	s.goesOn(t)
	if m, _, err := s.at(s.free, 2).Call(deadline(t), "tools/call", s.approval.retry); err != nil || outcome(m) != "done" {
		t.Errorf("an approval: %s, %v", m.Text, err)
	}
	if n := s.allowance(t, 2); n != 1 && !(f.late && n == 0) {
		t.Errorf("of an allowance of 2, 1 was used before: %d calls were let through", n)
	}
}

// afterLoss checks everything after Redis has lost its data.
func (s *outage) afterLoss(t *testing.T) {
	t.Helper()
	for here := range 3 {
		eventually(t, "a session that is lost is said to be missing", func() bool {
			x := s.send(t, s.at(s.known, here), "tools/list", "{}")
			defer x.Close()
			return x.Status == http.StatusNotFound
		})
	}
	if m, err := s.there.Response(); err != nil || m.Error == nil ||
		!strings.Contains(string(m.Error.Data), `"executed":"unknown"`) {
		t.Errorf("a call of a lost session: %s, %v", m.Text, err)
	}
	s.known = rawWith(t, s.url, statefulClient, askable)
	for here := range 3 {
		// The replicas know each other again when they have renewed their leases.
		eventually(t, fmt.Sprint("begun anew, at replica ", here), func() bool {
			m, _, err := s.at(s.known, here).Call(deadline(t), "tools/call", `{"name":"plain__do"}`)
			if err != nil || m.Error != nil && m.Error.Code != 50303 {
				t.Fatalf("%s, %v", m.Text, err)
			}
			return m.Error == nil && outcome(m) == "done"
		})
	}
	s.answered(t, 1, s.ask(t))
	s.goesOn(t)
	// The approval is lost: the user is asked again.
	question := strings.TrimSuffix(s.approval.retry, "}") + "}"
	m, _, err := s.at(s.free, 2).Call(deadline(t), "tools/call", question)
	if err != nil || !strings.Contains(m.Text, "input_required") {
		t.Errorf("an approval that is lost: %s, %v", m.Text, err)
	}
	if n := s.allowance(t, 2); n != 2 {
		t.Errorf("an allowance that is lost begins anew: %d calls of 2 were let through", n)
	}
}

// goesOn requires that a client without a session continues at another replica, once the
// two replicas reach each other; answered shows that.
func (s *outage) goesOn(t *testing.T) {
	t.Helper()
	if m, _, err := s.at(s.free, 1).Call(deadline(t), "tools/call", s.freeThere.retry); err != nil || outcome(m) != yes {
		t.Errorf("a question without a session that is answered at another replica: %s, %v", m.Text, err)
	}
}

// heals requires a replica to accept and serve new sessions again.
func (s *outage) heals(t *testing.T, here int) {
	t.Helper()
	fresh := unopened(t, s.urls[here], statefulClient)
	eventually(t, fmt.Sprint("replica ", here, " heals"), func() bool {
		x := s.begin(t, here)
		defer x.Close()
		fresh.Session = x.Header.Get("Mcp-Session-Id")
		return x.Status == http.StatusOK
	})
	eventually(t, fmt.Sprint("replica ", here, " serves what is new"), func() bool {
		x := s.send(t, fresh, "tools/list", "{}")
		defer x.Close()
		return x.Status == http.StatusOK
	})
}

// eventually requires something to happen soon: within a second or two, unless the machine
// is busy.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.After(patience); !happened(); {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-end:
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

// TestRedisPartition: one of three replicas loses its link to Redis.
func TestRedisPartition(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	faults := map[string]func(*faultproxy.Proxy){
		"cut": (*faultproxy.Proxy).Cut, "reset": (*faultproxy.Proxy).Reset, "black hole": (*faultproxy.Proxy).BlackHole,
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newOutage(t)
			s.prepare(t)
			other := raw(t, s.urls[1], statefulClient)
			for here := range 3 {
				s.called(t, "before", s.at(other, here), "plain")
			}
			fault(s.links[0])

			s.called(t, "a known session at the replica that is cut off", s.at(s.known, 0), "plain")
			s.called(t, "no session at the replica that is cut off", s.at(s.free, 0), "plain")
			unavailable(t, "a new session at the replica that is cut off", s.begin(t, 0))
			fresh := raw(t, s.urls[1], statefulClient)
			s.called(t, "a new session at the others", s.at(fresh, 2), "plain")
			unavailable(t, "one that it cannot know is not said to be missing", s.send(t, s.at(fresh, 0), "tools/list", "{}"))
			s.answered(t, 0, s.here)
			if status, err := s.at(other, 1).Delete(deadline(t)); status != http.StatusNoContent || err != nil {
				t.Errorf("DELETE at another replica: %d, %v", status, err)
			}
			ended := func(what string) {
				t.Helper()
				x := s.send(t, s.at(other, 0), "tools/list", "{}")
				defer x.Close()
				if x.Status != http.StatusNotFound {
					t.Errorf("the session has ended, %s: %d", what, x.Status)
				}
			}
			ended("as its owner knows")

			s.links[0].Pass()
			s.heals(t, 0)
			ended("as Redis knows")
			s.called(t, "the session that was begun meanwhile", s.at(fresh, 0), "plain")
			mustCall(t, s.at(s.known, 0), "logging/setLevel", `{"level":"debug"}`)
			s.answered(t, 1, s.there)
			s.goesOn(t)
		})
	}
}

// TestRedisFailover: a Sentinel makes a replica of Redis the master, under load.
func TestRedisFailover(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	replica.Follow(t, master)
	sentinel := redistest.StartSentinel(t, master, "gate")
	s := newOutageBy(t, master, func(int) string { return "redis+sentinel://" + sentinel.Addr + "/0?master=gate" })
	s.prepare(t)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for here := 0; ; here = (here + 1) % 3 {
			s.called(t, "a known session meanwhile", s.at(s.known, here), "plain")
			x := s.begin(t, here)
			if x.Status != http.StatusOK && x.Status != http.StatusServiceUnavailable {
				t.Errorf("a new session meanwhile: %d", x.Status)
			}
			x.Close()
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	}()
	// A master may lose its last writes: none of those that this test checks later.
	master.Replicated(t)
	sentinel.Failover(t, "gate", replica)
	master.Kill()
	for here := range 3 {
		s.heals(t, here)
	}
	close(over)
	<-done
	s.answered(t, 0, s.here)
	s.after(t, redisFault{})
}

// TestRedisUser: replicas need no more rights in Redis than docs/configuration.md
// says, whatever they keep there.
func TestRedisUser(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.AddUser(t, "../../docs/configuration.md", server)
	s := newOutageBy(t, server, func(int) string {
		return "redis://" + redistest.Username + ":" + redistest.Password + "@" + server.Addr
	})
	s.prepare(t)
	s.answered(t, 0, s.here)
	s.after(t, redisFault{})
}

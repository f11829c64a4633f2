package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const askable = `{"elicitation":{}}`

// begun is a call under way at a replica.
type begun struct {
	*mcptest.Exchange
	id       string          // of the request
	last     string          // of its events
	question json.RawMessage // id of the question that its server asks
}

// begin makes a call and reads its stream up to the first message of a method.
func begin(t *testing.T, c *mcptest.Client, id, tool, until string) begun {
	t.Helper()
	x, err := c.SendID(deadline(t), fmt.Sprintf("%q", id), "tools/call", call(tool, id))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	m, err := x.Until(until)
	if err != nil || m.EventID == "" {
		t.Fatalf("%s: %s %v", id, m.Text, err)
	}
	return begun{x, id, m.EventID, m.ID}
}

// wantLost checks that a call is answered as lost together with its replica.
func wantLost(t *testing.T, what string, m mcptest.Message, err error) {
	t.Helper()
	if err != nil || m.Error == nil || m.Error.Code != 50205 ||
		!strings.Contains(string(m.Error.Data), `"executed":"unknown"`) {
		t.Errorf("%s: %s %v", what, m.Text, err)
	}
}

// house is a session at a replica, and what is under way in it.
type house struct {
	name   string
	owner  int
	client *mcptest.Client
	running, asked,
	carried begun // a call forwarded by another replica
	stream *mcptest.Exchange
}

// settle makes a session that a replica owns, with work under way that also comes through
// other replicas.
func settle(t *testing.T, s *several, name string, owner int) *house {
	t.Helper()
	h := &house{name: name, owner: owner, client: s.clientOf(t, owner, clientRev, askable)}
	here, other := s.at(h.client, owner), s.at(h.client, (owner+1)%3)
	must(t, "the level", other, "logging/setLevel", `{"level":"error"}`)
	must(t, "a subscription", other, "resources/subscribe", `{"uri":"old+test://r"}`)
	must(t, "a description", here, "tools/call", `{"name":"describe_tools","arguments":{"names":["told__echo"]}}`)
	must(t, "a call", here, "tools/call", call("old__echo", name+"-before"))
	wantOwnTool(t, other, name)
	h.running = begin(t, here, name+"-runs", "old__wait", "notifications/progress")
	h.asked = begin(t, here, name+"-asked", "old__ask", "elicitation/create")
	h.carried = begin(t, s.at(h.client, 2), name+"-carried", "old__wait", "notifications/progress")
	stream, err := other.Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Close)
	h.stream = stream
	return h
}

// wantKept checks at a replica that the session continues unchanged.
func (h *house) wantKept(t *testing.T, s *several, old *worker, replica int) {
	t.Helper()
	c := s.at(h.client, replica)
	must(t, "a call", c, "tools/call", call("old__echo", h.name+"-after"))
	if before, after := old.session(h.name+"-before"), old.session(h.name+"-after"); before != after {
		t.Errorf("%s: the session at the server was %s and is %s", h.name, before, after)
	}
	if _, logs, err := c.Call(deadline(t), "tools/call", call("old__log", "x")); err != nil || len(logs) != 1 ||
		!strings.Contains(logs[0].Text, `"error"`) {
		t.Errorf("%s: the level: %v %v", h.name, logs, err)
	}
	if m := must(t, "a described tool", c, "tools/call", call("told__echo", "x")); textOf(m) != "echo x" {
		t.Errorf("%s: a described tool: %s", h.name, m.Text)
	}
	wantTool(t, c, h.name)
	stream, err := c.Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	stop := make(chan struct{})
	var pushing sync.WaitGroup
	pushing.Go(func() { // it may not be listening yet
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			old.Update("test://r")
			select {
			case <-tick.C:
			case <-stop:
				tick.Stop()
				return
			}
		}
	})
	for range 5 { // the first ones may only say that everything may have changed
		if _, err := stream.Until("notifications/resources/updated"); err != nil {
			t.Errorf("%s: the subscription: %v", h.name, err)
			break
		}
	}
	close(stop)
	pushing.Wait()
}

// wantLost checks at a replica that running calls are lost.
func (h *house) wantLost(t *testing.T, s *several, replica int) {
	t.Helper()
	c := s.at(h.client, replica)
	for _, x := range []begun{h.running, h.asked, h.carried} {
		y, err := c.Get(deadline(t), x.last)
		if err != nil {
			t.Fatal(err)
		}
		defer y.Close()
		if x.question != nil { // the user has not seen it
			if err := c.Answer(deadline(t), x.question, `{"action":"accept","content":{"a":"yes"}}`); err != nil {
				t.Errorf("%s: %v", x.id, err)
			}
		}
		m, err := y.Response()
		if wantLost(t, x.id, m, err); string(m.ID) != fmt.Sprintf("%q", x.id) {
			t.Errorf("%s: the id is %s", x.id, m.ID)
		}
	}
}

// TestReplicaKilled kills one replica of three, and stops another for longer than its
// lease. Their running calls are lost, and everyone who waits for one is told. Their
// sessions continue at the third replica: at once for the killed one, and after the lease
// for the stopped one.
func TestReplicaKilled(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	old, told := newWorker(t, serverRev), newWorker(t, statelessRev)
	shop := newWorkshop(t)
	program := filepath.Join(t.TempDir(), "gatehouse") // TestMain recognizes this name
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	s := replicate(t, fmt.Sprintf("http: {stream_after: 1m}\naudit: {sinks: [{type: stdout}]}\n"+
		"upstreams:\n- {name: old, url: %q}\n- {name: told, url: %q, disclosure: {mode: progressive}}\n"+
		"- {name: shop, url: %q, disclosure: {mode: progressive}}\n- {name: book, command: [%q, demo-handbook]}\n",
		old.URL, told.URL, shop, program), "old", "told", "shop", "book")
	killed, paused, alive := s.replicas[0], s.replicas[1], s.replicas[2]
	ofKilled, ofPaused, ofAlive := settle(t, s, "killed", 0), settle(t, s, "paused", 1), settle(t, s, "alive", 2)

	// A client without sessions has a home there, too, with its session at the server.
	stateless := s.clientOf(t, 0, statelessRev, askable)
	shown := must(t, "a question", s.at(stateless, 0), "tools/call", call("old__ask", "shown"))
	var state, kind string
	if !shown.Value("requestState", &state) || !shown.Value("resultType", &kind) || kind != "input_required" {
		t.Fatalf("a question: %s", shown.Text)
	}
	const silent = `{"name":"old__wait","arguments":{"key":%q}}`
	answers := map[string]chan mcptest.Message{}
	forward := func(c *mcptest.Client, key string) { // a call with no output before its answer
		answer := make(chan mcptest.Message, 1)
		answers[key] = answer
		go func() {
			m, _, err := s.at(c, 2).Call(deadline(t), "tools/call", fmt.Sprintf(silent, key))
			if err != nil {
				t.Errorf("%s: %v", key, err)
			}
			answer <- m
		}()
		old.await(t, key)
	}
	forward(ofKilled.client, "killed-silent")
	forward(ofPaused.client, "paused-silent")
	forward(stateless, "stateless-silent")
	told50205 := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			select {
			case m := <-answers[key]:
				wantLost(t, key, m, nil)
			case <-deadline(t).Done():
				t.Errorf("%s is not answered", key)
			}
		}
	}
	forwarded, err := s.at(stateless, 2).Send(deadline(t), "tools/call", call("old__wait", "stateless-streams"))
	if err != nil {
		t.Fatal(err)
	}
	defer forwarded.Close()
	if m, err := forwarded.Until("notifications/progress"); err != nil {
		t.Fatalf("%s %v", m.Text, err)
	}

	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	paused.signal(t, mcptest.SignalStop)
	gone := time.Now()

	// The killed replica refuses connections, so its sessions continue at once.
	told50205("killed-silent", "stateless-silent")
	m, err := forwarded.Response()
	wantLost(t, "a stream that was forwarded", m, err)
	ofKilled.wantLost(t, s, 2)
	ofKilled.wantKept(t, s, old, 2)
	more := fmt.Sprintf(`,"inputResponses":{},"requestState":%q}`, state)
	m, _, err = s.at(stateless, 2).Call(deadline(t), "tools/call", strings.TrimSuffix(call("old__ask", "shown"), "}")+more)
	wantLost(t, "who answers a question of the replica", m, err)
	wantWithin(t, "to go on with what was killed", soon, gone)

	// The third replica's own sessions continue, too.
	ofAlive.wantKept(t, s, old, 2)
	if err := s.at(ofAlive.client, 2).Answer(deadline(t), ofAlive.asked.question,
		`{"action":"accept","content":{"a":"yes"}}`); err != nil {
		t.Error(err)
	}
	old.release("alive-runs")
	old.release("alive-carried")
	for want, x := range map[string]begun{"done alive-runs": ofAlive.running, "done alive-carried": ofAlive.carried,
		"answered alive-asked yes": ofAlive.asked} {
		if m, err := x.Response(); err != nil || textOf(m) != want {
			t.Errorf("%s: %s %v", x.id, m.Text, err)
		}
	}

	// Sessions of the stopped replica continue when its lease is over.
	told50205("paused-silent")
	within(t, afterLease, "the sessions of the replica that was stopped go on", func() bool {
		m, _, err := s.at(ofPaused.client, 2).Call(deadline(t), "tools/list", "{}")
		return err == nil && m.Error == nil
	})
	wantWithin(t, "to go on with what was stopped", afterLease, gone)
	ofPaused.wantLost(t, s, 2)
	ofPaused.wantKept(t, s, old, 2)

	// When it comes back, it no longer owns them.
	paused.signal(t, mcptest.SignalContinue)
	old.release("paused-runs")
	if m, err := ofPaused.running.Response(); err == nil {
		t.Errorf("the replica that was stopped answers what others have: %s", m.Text)
	}
	must(t, "a session that it owned, at the replica that was stopped", s.at(ofPaused.client, 1), "tools/list", "{}")
	ofPaused.wantKept(t, s, old, 1)

	// The killed replica starts again normally.
	killed.start(t)
	m = must(t, "the replica that was killed", s.at(ofKilled.client, 0), "tools/call",
		`{"name":"book__search","arguments":{"query":"the"}}`)
	if strings.Contains(m.Text, `"isError":true`) {
		t.Errorf("a process of its: %s", m.Text)
	}
	x := begin(t, s.at(ofKilled.client, 0), "across", "old__ask", "elicitation/create")
	if err := s.at(ofKilled.client, 1).Answer(deadline(t), x.question,
		`{"action":"accept","content":{"a":"yes"}}`); err != nil {
		t.Error(err)
	}
	if m, err := x.Response(); err != nil || textOf(m) != "answered across yes" {
		t.Errorf("a question across replicas: %s %v", m.Text, err)
	}
	client := s.redis.Client()
	defer client.Close()
	leases := func() []string {
		names, err := client.Keys(t.Context(), "gatehouse:l:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	eventually(t, "leases are those of who is there", func() bool { return len(leases()) == 3 })
	if status, err := s.client(t, clientRev, "{}").Delete(deadline(t)); err != nil || status != http.StatusNoContent {
		t.Errorf("a new session: %d %v", status, err)
	}
	for _, r := range []*replica{killed, paused, alive} {
		r.signal(t, syscall.SIGTERM)
	}
	for _, r := range []*replica{killed, paused, alive} {
		if code := r.wait(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
	within(t, afterLease, "the leases of who has left end", func() bool { return len(leases()) == 0 })
	lost := map[string]string{"shown": ""}
	for _, key := range []string{"killed-silent", "paused-silent", "stateless-silent", "stateless-streams"} {
		lost[key] = ""
	}
	for _, h := range []*house{ofKilled, ofPaused} {
		for _, x := range []begun{h.running, h.asked, h.carried} {
			part := strings.Split(x.last, "-") // c-REPLICA-NUMBER-...
			lost[x.id] = part[1] + "-" + part[2]
		}
	}
	s.recordedTruly(t, old, lost)
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const askable = `{"elicitation":{}}`

// begun is a call that a replica is in the midst of.
type begun struct {
	*mcptest.Exchange
	id       string          // of the request
	last     string          // of its events
	question json.RawMessage // id of the question that its server has asked
}

// begin makes a call up to the first message of a method on its stream.
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

// wantLost checks that a call is answered as one that is lost with its replica.
func wantLost(t *testing.T, what string, m mcptest.Message, err error) {
	t.Helper()
	if err != nil || m.Error == nil || m.Error.Code != 50205 || !strings.Contains(string(m.Error.Data), `"executed":"unknown"`) {
		t.Errorf("%s: %s %v", what, m.Text, err)
	}
}

// TestReplicaKilled kills one replica of three and stops another one for longer than its
// lease lasts. What they were in the midst of is lost, and whoever waits for it at the
// third is told; all else goes on there.
func TestReplicaKilled(t *testing.T) {
	t.Parallel()
	old, told, patient := newWorker(t, serverRev), newWorker(t, statelessRev), newPatient(t)
	program := filepath.Join(t.TempDir(), "gatehouse") // by which name TestMain knows it
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	s := replicate(t, fmt.Sprintf("upstreams:\n- {name: old, url: %q}\n- {name: told, url: %q, disclosure: {mode: progressive}}\n- {name: book, command: [%q, demo-handbook]}\n- {name: patient, url: %q}\n",
		old.URL, told.URL, program, patient.URL), "old", "told", "book", "patient")
	killed, paused, alive := s.replicas[0], s.replicas[1], s.replicas[2]
	c := s.client(t, clientRev, askable)
	at := func(replica int) *mcptest.Client { return s.at(c, replica) }

	// What the session is in: each part by way of another replica.
	must(t, "the level", at(0), "logging/setLevel", `{"level":"error"}`)
	must(t, "a subscription", at(1), "resources/subscribe", `{"uri":"old+test://r"}`)
	must(t, "a description", at(0), "tools/call", `{"name":"describe_tools","arguments":{"names":["told__echo"]}}`)

	// What the replicas are in the midst of.
	const progressed, asked = "notifications/progress", "elicitation/create"
	lost := []begun{
		begin(t, at(0), "killed", "old__wait", progressed),
		begin(t, at(0), "killed-asked", "old__ask", asked),
		begin(t, at(1), "paused", "old__wait", progressed),
	}
	safe, safeAsked := begin(t, at(2), "safe", "old__wait", progressed), begin(t, at(2), "safe-asked", "old__ask", asked)
	standing, err := at(0).Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer standing.Close()
	stateless := s.client(t, statelessRev, askable)
	shown := must(t, "a question", s.at(stateless, 0), "tools/call", call("old__ask", "shown"))
	var state, kind string
	if !shown.Value("requestState", &state) || !shown.Value("resultType", &kind) || kind != "input_required" {
		t.Fatalf("a question: %s", shown.Text)
	}
	patient.asks(t, at(0), s.at(stateless, 0))
	must(t, "a call in the session of a question", at(2), "tools/call", `{"name":"patient__echo","arguments":{}}`)
	cut := make(chan error, 1)
	go func() {
		m, _, err := s.at(stateless, 0).Call(deadline(t), "tools/call", call("old__wait", "cut"))
		if err == nil {
			err = fmt.Errorf("it is answered: %s", m.Text)
		} else {
			err = nil
		}
		cut <- err
	}()
	old.await(t, "cut")

	killed.signal(t, syscall.SIGKILL)
	killed.wait(t)
	paused.signal(t, mcptest.SignalStop)
	gone := time.Now()

	// All else goes on.
	before := len(old.Received("resources/subscribe"))
	again, err := at(2).Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	within(t, soon, "the subscription is the third replica's", func() bool { return len(old.Received("resources/subscribe")) > before })
	old.Update("test://r")
	if _, err := again.Until("notifications/resources/updated"); err != nil {
		t.Errorf("the subscription: %v", err)
	}
	if _, logs, err := at(2).Call(deadline(t), "tools/call", call("old__log", "x")); err != nil || len(logs) != 1 || !strings.Contains(logs[0].Text, `"error"`) {
		t.Errorf("the level: %v %v", logs, err)
	}
	if m := must(t, "a described tool", at(2), "tools/call", call("told__echo", "x")); textOf(m) != "echo x" {
		t.Errorf("a tool that was described at the replica that was killed: %s", m.Text)
	}
	if err := at(2).Answer(deadline(t), safeAsked.question, `{"action":"accept","content":{"a":"yes"}}`); err != nil {
		t.Error(err)
	}
	old.release("safe")
	for want, x := range map[string]begun{"done safe": safe, "answered safe-asked yes": safeAsked} {
		if m, err := x.Response(); err != nil || textOf(m) != want {
			t.Errorf("%s: %s %v", x.id, m.Text, err)
		}
	}

	// What is lost is said to be.
	if err := <-cut; err != nil {
		t.Errorf("a call of a client without sessions: %v", err)
	}
	for _, x := range lost {
		y, err := at(2).Get(deadline(t), x.last)
		if err != nil {
			t.Fatal(err)
		}
		defer y.Close()
		if x.question != nil { // which the user does not know
			if err := at(2).Answer(deadline(t), x.question, `{"action":"accept","content":{"a":"yes"}}`); err != nil {
				t.Errorf("%s: %v", x.id, err)
			}
		}
		m, err := y.Response()
		if wantLost(t, x.id, m, err); string(m.ID) != fmt.Sprintf("%q", x.id) {
			t.Errorf("%s: the id is %s", x.id, m.ID)
		}
	}
	answers := fmt.Sprintf(`,"inputResponses":{},"requestState":%q}`, state)
	m, _, err := s.at(stateless, 2).Call(deadline(t), "tools/call", strings.TrimSuffix(call("old__ask", "shown"), "}")+answers)
	wantLost(t, "who answers a question of the replica", m, err)
	wantWithin(t, "to say what is lost", afterLease, gone)

	// So are the servers that have asked: by the replica that has the session, or, where there
	// is none, by the next that has it.
	patient.wantLetGo(t, "a client with a session")
	must(t, "a call of the other client", s.at(stateless, 2), "tools/call", `{"name":"patient__echo","arguments":{}}`)
	patient.wantLetGo(t, "a client without a session")

	// The one that was stopped has no more to say of its call, and serves.
	paused.signal(t, mcptest.SignalContinue)
	old.release("paused")
	if m, err := lost[2].Response(); err == nil {
		t.Errorf("H/192 the replica that was stopped answers what others have: %s", m.Text)
	}
	must(t, "the replica that was stopped", at(1), "tools/list", "{}")

	// H/238: the one that was killed starts as if nothing had been.
	killed.start(t)
	m = must(t, "H/238 the replica that was killed", at(0), "tools/call", `{"name":"book__search","arguments":{"query":"the"}}`)
	if strings.Contains(m.Text, `"isError":true`) {
		t.Errorf("H/238 a process of its: %s", m.Text)
	}
	x := begin(t, at(0), "across", "old__ask", asked)
	if err := at(1).Answer(deadline(t), x.question, `{"action":"accept","content":{"a":"yes"}}`); err != nil {
		t.Error(err)
	}
	if m, err := x.Response(); err != nil || textOf(m) != "answered across yes" {
		t.Errorf("H/238 a question across replicas: %s %v", m.Text, err)
	}
	client := s.redis.Client()
	defer client.Close()
	eventually(t, "H/238 leases are those of who is there", func() bool {
		leases, err := client.Keys(t.Context(), "gatehouse:r:*").Result()
		return err == nil && len(leases) == 3
	})
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
	if leases, err := client.Keys(t.Context(), "gatehouse:r:*").Result(); err != nil || len(leases) > 0 {
		t.Errorf("H/238 leases after the end: %v %v", leases, err)
	}
}

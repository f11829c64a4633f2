package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestTaskIDsWithoutTheExtension: a client that has not declared the extension cannot
// use it.
func TestTaskIDsWithoutTheExtension(t *testing.T) {
	for _, server := range []string{stateless, statefulServer} {
		c := raw(t, newTaskDesk(t, server).gateway(t), stateless)
		x, err := c.Send(deadline(t), "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"taskIds":["x"]}}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		m, err := x.Response()
		if err != nil || x.Status != 400 || m.Error == nil || m.Error.Code != -32021 ||
			!strings.Contains(string(m.Error.Data),
				`"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
			t.Errorf("status %d, %s, %v", x.Status, m.Text, err)
		}
	}
}

// TestListeningToTasks: a client of the extension is notified of its own tasks, and of no
// others.
func TestListeningToTasks(t *testing.T) {
	d := newTaskDesk(t, stateless)
	g := guard(t, gateway.Config{
		Upstreams: []upstream.Config{{Name: "up", URL: d.URL}},
		Policy:    policy.Config{Rules: []policy.Rule{{Name: "all", Allow: []string{"tools:up/*"}}}},
	})
	ann := g.rawWith(t, stateless, g.issuer.Token(claims{"sub": "ann"}), askedAndTasks)
	bob := g.rawWith(t, stateless, g.issuer.Token(claims{"sub": "bob"}), askedAndTasks)
	mine, j := d.create(t, ann)
	d.create(t, ann)
	his, hisJob := d.create(t, bob)

	x, err := ann.SendID(deadline(t), `"L"`, "subscriptions/listen",
		fmt.Sprintf(`{"notifications":{"taskIds":[%q,%q,"nobody's",%q]}}`, mine, his, mine))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ack, err := x.Until("notifications/subscriptions/acknowledged")
	var ids []string
	if err != nil || !ack.Param("notifications|taskIds", &ids) || len(ids) != 1 || ids[0] != mine {
		t.Fatalf("acknowledged: %s, %v", ack.Text, err)
	}
	tell := func(job *job) { d.Push("notifications/tasks", d.show(job)) }
	tell(hisJob)
	j.ask("Which?")
	tell(j)
	j.finish("42")
	tell(j)
	for _, want := range []string{"input_required", "completed"} {
		m, err := x.Next()
		if err != nil {
			t.Fatal(err)
		}
		var id, status, of string
		m.Param("taskId", &id)
		m.Param("status", &status)
		m.Param("_meta|io.modelcontextprotocol/subscriptionId", &of)
		if m.Method != "notifications/tasks" || id != mine || status != want || of != "L" {
			t.Errorf("told %s", m.Text)
		}
		if want == "completed" && !strings.Contains(m.Text, `"text":"42"`) ||
			want != "completed" && !strings.Contains(m.Text, "Which?") {
			t.Errorf("the task is not complete: %s", m.Text)
		}
	}
	listens := d.Received("subscriptions/listen")
	last := listens[len(listens)-1]
	if !last.Param("notifications|taskIds", &ids) || len(ids) != 1 || ids[0] != j.id {
		t.Errorf("the server was asked for %s", last.Text)
	}
	var declared json.RawMessage
	if !last.Param("_meta|io.modelcontextprotocol/clientCapabilities|extensions|io.modelcontextprotocol/tasks",
		&declared) {
		t.Errorf("the server was not told of the extension: %s", last.Text)
	}
}

// TestStatusOfTasks: a listening client of 2025-11-25 is notified of the status of its
// tasks, by its own ids.
func TestStatusOfTasks(t *testing.T) {
	d := newTaskDesk(t, taskServer)
	url := d.gateway(t)
	open := func() (*mcptest.Client, *mcptest.Exchange) {
		c := raw(t, url, statefulClient) // it cannot be asked, so nobody listens until there is a task
		x, err := c.Get(deadline(t), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Close)
		return c, x
	}
	ann, annHears := open()
	bob, bobHears := open()
	annID, annJob := d.create(t, ann)
	bobID, bobJob := d.create(t, bob)
	// The gateway's own, and those of the two. A GET is answered before the gateway
	// listens, and a task is followed from the time when its client first gets it or asks
	// for it.
	for limit, listening := deadline(t), false; !listening; {
		request(t, ann, "tasks/get", about(annID))
		request(t, bob, "tasks/get", about(bobID))
		ctx, cancel := context.WithTimeout(limit, 100*time.Millisecond)
		listening = d.AwaitGETStreams(ctx, 3) == nil
		cancel()
		if limit.Err() != nil {
			t.Fatal("the gateway does not listen for both")
		}
	}
	annJob.finish("42")
	for _, j := range []*job{bobJob, annJob, {id: "nobody's", status: "working"}} {
		d.Push("notifications/tasks/status", d.show(j))
	}
	for _, tt := range []struct {
		x          *mcptest.Exchange
		id, status string
	}{{annHears, annID, "completed"}, {bobHears, bobID, "working"}} {
		m, err := tt.x.Until("notifications/tasks/status")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"taskId":%q,"status":%q,"statusMessage":"","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1}`, tt.id, tt.status)
		if string(m.Params) != want {
			t.Errorf("told %s, want %s", m.Params, want)
		}
		for _, before := range tt.x.Before {
			if strings.HasPrefix(before.Method, "notifications/tasks") {
				t.Errorf("told of another one's task: %s", before.Text)
			}
		}
	}
}

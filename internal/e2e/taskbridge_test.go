package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// questionOf returns the only question of a task, as tasks/get shows it.
func questionOf(t *testing.T, c *mcptest.Client, id string) (key, message string) {
	t.Helper()
	got := request(t, c, "tasks/get", about(id))
	var requests map[string]struct {
		Method string
		Params struct{ Message string }
	}
	if value(t, got, "status") != "input_required" || !got.Value("inputRequests", &requests) || len(requests) != 1 {
		t.Fatalf("one question is wanted: %s", got.Text)
	}
	for key, r := range requests {
		if r.Method != "elicitation/create" || strings.Contains(got.Text, "related-task") {
			t.Errorf("asked %s", got.Text)
		}
		return key, r.Params.Message
	}
	return "", ""
}

// TestTasksOf20251125ForTheExtension: a client of the extension with a server of
// 2025-11-25.
func TestTasksOf20251125ForTheExtension(t *testing.T) {
	t.Parallel()
	d := newTaskDesk(t, taskServer)
	c := rawWith(t, d.gateway(t), stateless, askedAndTasks)

	answer := request(t, c, "tools/call", `{"name":"up__slow"}`)
	j := receive(t, "a job", d.began)
	id := value(t, answer, "taskId")
	if value(t, answer, "resultType") != "task" || !strings.Contains(answer.Text, `"ttlMs":60000`) ||
		!strings.Contains(answer.Text, `"pollIntervalMs":1`) ||
		strings.Contains(answer.Text, `"ttl"`) || strings.Contains(answer.Text, `"task":{`) {
		t.Errorf("created: %s", answer.Text)
	}
	if got := request(t, c, "tasks/get", about(id)); value(t, got, "status") != "working" ||
		value(t, got, "resultType") != "complete" || value(t, got, "taskId") != id {
		t.Errorf("%s", got.Text)
	}
	keys := map[string]bool{}
	for _, message := range []string{"Which?", "And then?"} {
		j.ask(message)
		key, got := questionOf(t, c, id)
		if again, _ := questionOf(t, c, id); unvoiced(got) != message || again != key || keys[key] {
			t.Errorf("asked %q under %q, and then %q", got, key, again)
		}
		keys[key] = true
		request(t, c, "tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{"nobody's":{"action":"accept"}}}`, id))
		if j.now() != "input_required" {
			t.Error("an answer to nothing was one")
		}
		ack := request(t, c, "tasks/update",
			fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{}}}}`, id, key))
		if value(t, ack, "resultType") != "complete" || receive(t, "the answer", j.answer) != "accept" {
			t.Errorf("updated: %s", ack.Text)
		}
	}
	j.finish("42")
	got := request(t, c, "tasks/get", about(id))
	var result struct{ Content []struct{ Text string } }
	if value(t, got, "status") != "completed" || !got.Value("result", &result) || len(result.Content) != 1 ||
		result.Content[0].Text != "42" || strings.Contains(got.Text, "related-task") {
		t.Errorf("the result: %s", got.Text)
	}
	if n := len(d.Received("tools/call")); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}

	id, j = d.create(t, c)
	j.set("failed", `"result":{"content":[],"isError":true}`)
	if got := request(t, c, "tasks/get", about(id)); value(t, got, "status") != "completed" ||
		!strings.Contains(got.Text, `"isError":true`) {
		t.Errorf("a tool that failed: %s", got.Text)
	}
	id, j = d.create(t, c)
	j.breaks()
	var code int
	if got := request(t, c, "tasks/get", about(id)); value(t, got, "status") != "failed" ||
		!got.Value("error|code", &code) || code != -32603 {
		t.Errorf("a call that failed: %s", got.Text)
	}
	id, j = d.create(t, c)
	j.ask("Which?")
	questionOf(t, c, id)
	for range 2 { // the second time it has already ended, which is as good
		if ack := request(t, c, "tasks/cancel", about(id)); value(t, ack, "resultType") != "complete" ||
			strings.Contains(ack.Text, "taskId") {
			t.Errorf("cancelled: %s", ack.Text)
		}
	}
	if j.now() != "cancelled" {
		t.Errorf("the job is %s", j.now())
	}
	if got := value(t, request(t, c, "tasks/get", about(id)), "status"); got != "cancelled" {
		t.Errorf("it is %s", got)
	}
	if got := said(request(t, c, "tools/call", `{"name":"up__maybe"}`)); got != "done at once" {
		t.Errorf("a tool that needs no task: %s", got)
	}
	d.forget()
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		wantError(t, method+" of a task that its server forgot", request(t, c, method, about(id)), -32602)
	}
}

// TestListeningToTasksOf20251125: short notifications of the server become complete ones.
func TestListeningToTasksOf20251125(t *testing.T) {
	d := newTaskDesk(t, taskServer)
	c := rawWith(t, d.gateway(t), stateless, askedAndTasks)
	id, j := d.create(t, c)
	_, other := d.create(t, c)
	x, err := c.Send(deadline(t), "subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]}}`, id))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ack, err := x.Until("notifications/subscriptions/acknowledged")
	var ids []string
	if err != nil || !ack.Param("notifications|taskIds", &ids) || len(ids) != 1 || ids[0] != id {
		t.Fatalf("acknowledged: %s, %v", ack.Text, err)
	}
	other.finish("no")
	j.ask("Which?")
	tell := func(j *job) { d.Push("notifications/tasks/status", d.show(j)) }
	tell(other)
	tell(j)
	m, err := x.Until("notifications/tasks")
	var requests map[string]json.RawMessage
	if err != nil || !m.Param("inputRequests", &requests) || len(requests) != 1 || strings.Contains(m.Text, j.id) {
		t.Errorf("told %s, %v", m.Text, err)
	}
	j.set("working", "")
	j.finish("42")
	tell(j)
	if m, err = x.Until("notifications/tasks"); err != nil || !strings.Contains(m.Text, `"text":"42"`) ||
		!strings.Contains(m.Text, `"status":"completed"`) || len(x.Before) > 0 {
		t.Errorf("told %s, %v, before it %v", m.Text, err, x.Before)
	}
}

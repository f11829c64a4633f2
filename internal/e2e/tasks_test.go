package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// request makes a request that must succeed.
func request(t *testing.T, c *mcptest.Client, method, params string) mcptest.Message {
	t.Helper()
	answer, _, err := c.Call(deadline(t), method, params)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return answer
}

func about(id string) string { return fmt.Sprintf(`{"taskId":%q}`, id) }

// value returns a string member of a result.
func value(t *testing.T, m mcptest.Message, path string) string {
	t.Helper()
	var s string
	if !m.Value(path, &s) {
		t.Fatalf("no %s in %s", path, m.Text)
	}
	return s
}

func wantError(t *testing.T, what string, m mcptest.Message, code int) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code {
		t.Errorf("%s: %s, want code %d", what, m.Text, code)
	}
}

// create makes a task and returns its id and the server's job.
func (d *taskDesk) create(t *testing.T, c *mcptest.Client) (id string, j *job) {
	t.Helper()
	if !c.Revision.Stateful {
		answer := request(t, c, "tools/call", `{"name":"up__slow"}`)
		return value(t, answer, "taskId"), receive(t, "a job", d.began)
	}
	answer := request(t, c, "tools/call", `{"name":"up__slow","task":{"ttl":60000}}`)
	return value(t, answer, "task|taskId"), receive(t, "a job", d.began)
}

// TestTasksOf20251125: a client of 2025-11-25 with a server of 2025-11-25.
func TestTasksOf20251125(t *testing.T) {
	t.Parallel()
	d := newTaskDesk(t, taskServer)
	url := d.gateway(t)
	c := rawWith(t, url, statefulClient, `{"elicitation":{}}`)

	answer := request(t, c, "tools/call", `{"name":"up__slow","arguments":{"a":1},"task":{"ttl":60000,"x":1}}`)
	j := receive(t, "a job", d.began)
	var wish json.RawMessage
	if !j.call.Param("task", &wish) || string(wish) != `{"ttl":60000,"x":1}` {
		t.Errorf("the server got task %s", wish)
	}
	id := value(t, answer, "task|taskId")
	if strings.Contains(id, j.id) || len(id) < 50 {
		t.Errorf("the id %q is not sealed", id)
	}
	if want := fmt.Sprintf(`{"task":{"taskId":%q,"status":"working","statusMessage":"","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1},`+
		`"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`, id); string(answer.Result) != want {
		t.Errorf("created\n%s, want\n%s", answer.Result, want)
	}
	j.says("half")
	got := request(t, c, "tasks/get", about(id))
	if want := fmt.Sprintf(`{"taskId":%q,"status":"working","statusMessage":"half","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1}`, id); string(got.Result) != want {
		t.Errorf("tasks/get\n%s, want\n%s", got.Result, want)
	}

	t.Run("tasks/result blocks, and asks on its stream", func(t *testing.T) {
		j.ask("Which?")
		x, err := c.Send(deadline(t), "tasks/result", about(id))
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		question, err := x.Until("elicitation/create")
		if err != nil {
			t.Fatal(err)
		}
		var related string
		if !question.Param("_meta|io.modelcontextprotocol/related-task|taskId", &related) || related != id {
			t.Errorf("the question is of task %q: %s", related, question.Text)
		}
		if got := value(t, request(t, c, "tasks/get", about(id)), "status"); got != "input_required" {
			t.Errorf("meanwhile it is %s", got)
		}
		if err := c.Answer(deadline(t), question.ID, `{"action":"accept","content":{}}`); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, "the answer", j.answer); got != "accept" {
			t.Errorf("the server was answered %q", got)
		}
		j.finish("42")
		result, err := x.Response()
		if err != nil || said(result) != "42" {
			t.Fatalf("%s, %v", result.Text, err)
		}
		if got := value(t, result, "_meta|io.modelcontextprotocol/related-task|taskId"); got != id {
			t.Errorf("the result is of task %q", got)
		}
	})
	if got := said(request(t, c, "tasks/result", about(id))); got != "42" {
		t.Errorf("once more: %q", got)
	}
	wantError(t, "cancelling what has ended", request(t, c, "tasks/cancel", about(id)), -32602)

	id, j = d.create(t, c)
	cancelled := request(t, c, "tasks/cancel", about(id))
	if value(t, cancelled, "status") != "cancelled" || value(t, cancelled, "taskId") != id || j.now() != "cancelled" {
		t.Errorf("cancelled: %s", cancelled.Text)
	}
	id, j = d.create(t, c)
	j.breaks()
	wantError(t, "a task that failed", request(t, c, "tasks/result", about(id)), -32603)

	wantError(t, "tasks/list", request(t, c, "tasks/list", `{}`), -32601)
	wantError(t, "tasks/update", request(t, c, "tasks/update", about(id)), -32601)
	wantError(t, "an id that nobody gave", request(t, c, "tasks/get", about("job-1")), -32602)
	wantError(t, "a tool without tasks", request(t, c, "tools/call", `{"name":"up__quick","task":{}}`), -32601)
	wantError(t, "no object", request(t, c, "tools/call", `{"name":"up__maybe","task":1}`), -32602)
	d.forget()
	lost := request(t, c, "tasks/get", about(id))
	wantError(t, "a task that its server forgot", lost, -32602)
	if strings.Contains(lost.Text, j.id) {
		t.Errorf("its own id comes out: %s", lost.Text)
	}
}

// TestTasksOfTheExtension: a client of the extension with a server of the extension.
func TestTasksOfTheExtension(t *testing.T) {
	d := newTaskDesk(t, stateless)
	url := d.statuses(t)
	c := rawWith(t, url, stateless, askedAndTasks)

	answer := request(t, c, "tools/call", `{"name":"up__slow"}`)
	j := receive(t, "a job", d.began)
	id := value(t, answer, "taskId")
	if value(t, answer, "resultType") != "task" || value(t, answer, "status") != "working" ||
		!strings.Contains(answer.Text, `"ttlMs":null`) ||
		!strings.Contains(answer.Text, `"pollIntervalMs":1`) || strings.Contains(answer.Text, j.id) {
		t.Errorf("created: %s", answer.Text)
	}

	got := request(t, c, "tasks/get", about(id)) // nothing has changed in between
	if value(t, got, "resultType") != "complete" || value(t, got, "taskId") != id ||
		value(t, got, "status") != "working" ||
		!strings.Contains(got.Text, `"ttlMs":null`) || strings.Contains(got.Text, "cacheScope") {
		t.Errorf("%s", got.Text)
	}
	asked := d.Received("tasks/get")
	if header := asked[len(asked)-1].Header; header.Get("Mcp-Name") != j.id || header.Get("Mcp-Method") != "tasks/get" {
		t.Errorf("the server was sent %v", header)
	}
	j.ask("Which?")
	got = request(t, c, "tasks/get", about(id))
	if value(t, got, "status") != "input_required" ||
		value(t, got, "inputRequests|q|params|message") != "up asks: Which?" || value(t, got, "resultType") != "complete" {
		t.Errorf("a question: %s", got.Text)
	}
	update := request(t, c, "tasks/update",
		fmt.Sprintf(`{"taskId":%q,"inputResponses":{"q":{"action":"accept","content":{}}}}`, id))
	if value(t, update, "resultType") != "complete" || receive(t, "the answer", j.answer) != "accept" {
		t.Errorf("tasks/update: %s", update.Text)
	}
	j.finish("42")
	got = request(t, c, "tasks/get", about(id))
	if value(t, got, "status") != "completed" || !strings.Contains(got.Text, `"text":"42"`) ||
		value(t, got, "resultType") != "complete" {
		t.Errorf("the result: %s", got.Text)
	}
	id, broken := d.create(t, c)
	broken.breaks()
	got = request(t, c, "tasks/get", about(id))
	var code int
	if !got.Value("error|code", &code) || code != -32603 || value(t, got, "status") != "failed" {
		t.Errorf("an error: %s", got.Text)
	}
	id, j = d.create(t, c)
	if ack := request(t, c, "tasks/cancel", about(id)); value(t, ack, "resultType") != "complete" ||
		j.now() != "cancelled" {
		t.Errorf("tasks/cancel: %s", ack.Text)
	}
	if got := said(request(t, c, "tools/call", `{"name":"up__quick"}`)); got != "done at once" {
		t.Errorf("a tool that makes none: %s", got)
	}
	for _, method := range []string{"tasks/result", "tasks/list"} {
		x, err := c.Send(deadline(t), method, about(id))
		if err != nil {
			t.Fatal(err)
		}
		m, _ := x.Response()
		if x.Status != 404 {
			t.Errorf("%s: status %d", method, x.Status)
		}
		wantError(t, method, m, -32601)
		x.Close()
	}
	wantError(t, "an id that nobody gave", request(t, c, "tasks/get", about("job-1")), -32602)
	wantError(t, "an update without answers", request(t, c, "tasks/update", about(id)), -32602)

	undeclared := raw(t, url, stateless)
	for _, params := range []struct{ method, params string }{
		{"tasks/get", about(id)}, {"tasks/cancel", about(id)}, {"tasks/get", about("job-1")},
		{"tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id)},
	} {
		x, err := undeclared.Send(deadline(t), params.method, params.params)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := x.Response()
		wantError(t, "undeclared "+params.method, m, -32021)
		if x.Status != 400 || m.Error == nil || !strings.Contains(string(m.Error.Data),
			`"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
			t.Errorf("status %d, %s", x.Status, m.Text)
		}
		x.Close()
	}
}

// TestTheHeaderOfATask: the header repeats the id.
func TestTheHeaderOfATask(t *testing.T) {
	d := newTaskDesk(t, stateless)
	c := rawWith(t, d.statuses(t), stateless, askedAndTasks)
	id, _ := d.create(t, c)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for name, header := range map[string][]string{"no header": {""}, "another id": {"another"}, "twice": {id, id}} {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q,"inputResponses":{},"_meta":{
				"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, id, stateless, askedAndTasks)
			x, err := c.Do(deadline(t), "POST", body, map[string][]string{"Mcp-Method": {method}, "Mcp-Name": header})
			if err != nil {
				t.Fatal(err)
			}
			m, err := x.Response()
			if err != nil || x.Status != 400 {
				t.Errorf("%s with %s: status %d, %v", method, name, x.Status, err)
			}
			wantError(t, method+" with "+name, m, -32020)
			x.Close()
		}
	}
}

// TestTasksAreOfferedWhereTheyWork checks what each client is offered with each
// server.
func TestTasksAreOfferedWhereTheyWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		server, client string
		tasks          string // of capabilities
		extension      bool
		support        string // of tool slow
	}{
		{taskServer, statefulClient, `{"cancel":{},"requests":{"tools":{"call":{}}}}`, false, "optional"},
		{taskServer, statefulServer, "", false, ""},
		{taskServer, stateless, "", true, ""},
		{stateless, statefulClient, "", false, ""},
		{stateless, stateless, "", true, ""},
		{statefulServer, statefulClient, "", false, ""},
		{statefulServer, stateless, "", false, ""},
	} {
		t.Run("client "+tt.client+" server "+tt.server, func(t *testing.T) {
			d := newTaskDesk(t, tt.server)
			c := unopened(t, d.gateway(t), tt.client)
			var told mcptest.Message
			if c.Revision.Stateful {
				told = request(t, c, "initialize",
					fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"x","version":"1"}}`,
						tt.client, taskExtension))
				if err := c.Open(deadline(t)); err != nil {
					t.Fatal(err)
				}
			} else {
				c.Caps = taskExtension
				told = request(t, c, "server/discover", `{}`)
			}
			var tasks, extension json.RawMessage
			told.Value("capabilities|tasks", &tasks)
			has := told.Value("capabilities|extensions|io.modelcontextprotocol/tasks", &extension)
			if string(tasks) != tt.tasks || has != tt.extension {
				t.Errorf("told of tasks %s and the extension %s", tasks, extension)
			}
			var tools []struct {
				Name      string
				Execution struct{ TaskSupport string }
			}
			request(t, c, "tools/list", `{}`).Value("tools", &tools)
			for _, tool := range tools {
				if tool.Name == "up__slow" && tool.Execution.TaskSupport != tt.support {
					t.Errorf("%s: taskSupport %q", tool.Name, tool.Execution.TaskSupport)
				}
			}
			if len(tools) != 3 {
				t.Errorf("%d tools", len(tools))
			}
		})
	}
}

// TestTasksThatNobodyOffers: what was not offered does not exist.
func TestTasksThatNobodyOffers(t *testing.T) {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := inFrontOf(t, s)
	c := raw(t, url, statefulClient)
	for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list"} {
		wantError(t, method, request(t, c, method, about("x")), -32601)
	}
	if got := said(request(t, c, "tools/call", `{"name":"up__do","task":{}}`)); got != "done" {
		t.Errorf("who offers no tasks pays no heed to the wish: %s", got)
	}
	for _, caps := range []string{"{}", taskExtension} {
		wantError(t, "tasks/get of "+caps, request(t, rawWith(t, url, stateless, caps), "tasks/get", about("x")), -32601)
	}
}

// TestClientsWithoutTasks: they call a tool that runs only as a task; the gateway
// creates the task and waits for it.
func TestClientsWithoutTasks(t *testing.T) {
	t.Parallel()
	for _, server := range []string{taskServer, stateless} {
		for _, revision := range []string{"2024-11-05", "2025-06-18", statefulClient, stateless} {
			t.Run("client "+revision+" server "+server, func(t *testing.T) {
				d := newTaskDesk(t, server)
				c := rawWith(t, d.gateway(t), revision, `{"elicitation":{}}`)
				t.Run("a result", func(t *testing.T) {
					x := slow(t, c, `{"progressToken":"p"}`)
					defer x.Close()
					j := receive(t, "a job", d.began)
					j.says("working on it")
					if _, err := x.Until("notifications/progress"); err != nil {
						t.Fatal(err)
					}
					j.finish("42")
					answer, err := x.Response()
					if err != nil || said(answer) != "42" || strings.Contains(answer.Text, "related-task") {
						t.Errorf("%s, %v", answer.Text, err)
					}
				})
				t.Run("an error", func(t *testing.T) {
					x := slow(t, c, `{}`)
					defer x.Close()
					receive(t, "a job", d.began).breaks()
					answer, err := x.Response()
					if err != nil || answer.Error == nil || answer.Error.Message != "the job broke" {
						t.Errorf("%s, %v", answer.Text, err)
					}
				})
				t.Run("cancelled", func(t *testing.T) {
					abandoned(t, c, d).until(t, "cancelled")
				})
				if n := len(d.Received("tools/call")); server == taskServer && n != 3 {
					t.Errorf("the server was called %d times", n)
				}
				if server == taskServer {
					if got := said(request(t, c, "tools/call", `{"name":"up__maybe"}`)); got != "done at once" {
						t.Errorf("a tool that needs no task: %s", got)
					}
				}
			})
		}
	}
}

// slow calls the tool that runs only as a task.
func slow(t *testing.T, c *mcptest.Client, meta string) *mcptest.Exchange {
	t.Helper()
	x, err := c.SendID(deadline(t), `"slow"`, "tools/call", `{"name":"up__slow","_meta":`+meta+`}`)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// abandoned returns the job of a call that its client cancels in the way of its revision.
func abandoned(t *testing.T, c *mcptest.Client, d *taskDesk) *job {
	t.Helper()
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		x, err := c.SendID(ctx, `"slow"`, "tools/call", `{"name":"up__slow"}`)
		if err == nil {
			_, err = x.Response()
			x.Close()
		}
		ended <- err
	}()
	j := receive(t, "a job", d.began)
	if _, err := d.Await(deadline(t), "a request about the job", func(r mcptest.Received) bool {
		var id string
		return r.Param("taskId", &id) && id == j.id
	}); err != nil {
		t.Fatal(err)
	}
	if c.Revision.Stateful {
		if _, err := c.Notify(deadline(t), "notifications/cancelled", `{"requestId":"slow"}`); err != nil {
			t.Fatal(err)
		}
	} else {
		cancel()
	}
	if err := receive(t, "the end of the call", ended); err == nil {
		t.Error("the cancelled call was answered")
	}
	return j
}

// TestQuestionsOfATaskThatIsWaitedFor: they become questions of the call.
func TestQuestionsOfATaskThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, server := range []string{taskServer, stateless} {
		t.Run("client "+statefulClient+" server "+server, func(t *testing.T) {
			d := newTaskDesk(t, server)
			c := rawWith(t, d.gateway(t), statefulClient, `{"elicitation":{}}`)
			for _, action := range []string{"accept", "decline"} {
				x := slow(t, c, `{}`)
				j := receive(t, "a job", d.began)
				j.ask("Which?")
				question, err := x.Until("elicitation/create")
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(question.Text, "related-task") {
					t.Errorf("the client knows nothing of the task: %s", question.Text)
				}
				if err := c.Answer(deadline(t), question.ID, `{"action":"`+action+`"}`); err != nil {
					t.Fatal(err)
				}
				if got := receive(t, "the answer", j.answer); got != action {
					t.Errorf("answered %q", got)
				}
				j.finish(action)
				if answer, err := x.Response(); err != nil || said(answer) != action {
					t.Errorf("%s, %v", answer.Text, err)
				}
				x.Close()
			}
			x := slow(t, c, `{}`)
			defer x.Close()
			j := receive(t, "a job", d.began)
			j.ask("Which?")
			if _, err := x.Until("elicitation/create"); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Notify(deadline(t), "notifications/cancelled", `{"requestId":"slow"}`); err != nil {
				t.Fatal(err)
			}
			j.until(t, "cancelled")
		})
		t.Run("client "+stateless+" server "+server, func(t *testing.T) {
			d := newTaskDesk(t, server)
			c := rawWith(t, d.gateway(t), stateless, `{"elicitation":{"form":{}}}`)
			x := slow(t, c, `{}`)
			defer x.Close()
			j := receive(t, "a job", d.began)
			for round := range 2 {
				j.ask(fmt.Sprint("Which? ", round))
				asked, err := x.Response()
				if err != nil {
					t.Fatal(err)
				}
				var questions map[string]json.RawMessage
				if value(t, asked, "resultType") != "input_required" || !asked.Value("inputRequests", &questions) ||
					len(questions) != 1 {
					t.Fatalf("asked: %s", asked.Text)
				}
				for key := range questions {
					x.Close()
					if x, err = c.Send(deadline(t), "tools/call",
						fmt.Sprintf(`{"name":"up__slow","requestState":%q,"inputResponses":{%q:{"action":"accept"}}}`,
							value(t, asked, "requestState"), key)); err != nil {
						t.Fatal(err)
					}
				}
				if got := receive(t, "the answer", j.answer); got != "accept" {
					t.Errorf("answered %q", got)
				}
				if server == stateless {
					break // its keys are unique during the task, and it has only one
				}
			}
			j.finish("42")
			if answer, err := x.Response(); err != nil || said(answer) != "42" {
				t.Errorf("%s, %v", answer.Text, err)
			}
			x.Close()
		})
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// taskServer is the revision of servers with tasks of 2025-11-25.
const taskServer = statefulClient

// Capabilities of clients and servers with tasks.
const (
	coreTasks     = `{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	taskExtension = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	askedAndTasks = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// taskDesk is a scripted server whose tools run as tasks, in the form of its revision: slow
// always, maybe if the client wants it, and quick never.
type taskDesk struct {
	*mcptest.Server
	stateful bool
	began    chan *job

	mu   sync.Mutex // guards the fields below
	jobs map[string]*job
	lost bool // the server has forgotten all jobs
}

// job is one task.
type job struct {
	id   string
	call *mcptest.Call // the call that made it; it has ended

	mu       sync.Mutex // guards the fields below
	status   string
	message  string
	outcome  string // a member "result" or "error", with its name
	question string // params of elicitation/create, "" for none
	changed  chan struct{}
	answer   chan string // the action, once for each question
}

func newTaskDesk(t *testing.T, revision string) *taskDesk {
	t.Helper()
	d := &taskDesk{Server: scripted(t, revision), stateful: revision != stateless, began: make(chan *job, 100),
		jobs: map[string]*job{}}
	if d.stateful {
		d.Offers(coreTasks)
	} else {
		d.Offers(taskExtension)
	}
	d.On("tools/list", func(c *mcptest.Call) {
		c.Result(`{"tools":[
			{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},
			{"name":"maybe","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},
			{"name":"quick","inputSchema":{"type":"object"}}]}`)
	})
	d.On("tools/call", d.call)
	d.On("tasks/get", func(c *mcptest.Call) {
		if j := d.find(c); j != nil {
			c.Result(d.show(j))
		}
	})
	d.On("tasks/cancel", func(c *mcptest.Call) {
		j := d.find(c)
		switch {
		case j == nil:
		case d.stateful && j.ended():
			c.Error(-32602, "Cannot cancel task: already in terminal status")
		case d.stateful:
			j.set("cancelled", "")
			c.Result(d.show(j))
		default:
			if !j.ended() {
				j.set("cancelled", "")
			}
			c.Result(`{}`)
		}
	})
	if d.stateful {
		d.On("tasks/result", d.result)
	} else {
		d.On("tasks/update", func(c *mcptest.Call) {
			if j := d.find(c); j != nil {
				var action string
				if c.Param("inputResponses|q|action", &action) {
					j.set("working", "")
					j.answer <- action
				}
				c.Result(`{}`)
			}
		})
	}
	return d
}

// gateway starts a gateway in front of the server, as upstream "up". Answers become streams
// soon, so the test has them while the server works.
func (d *taskDesk) gateway(t *testing.T) (url string) {
	t.Helper()
	return d.gatewayWith(t, front.Config{StreamAfter: 10 * time.Millisecond})
}

// statuses is gateway for a test that reads HTTP statuses, which streams do not have.
func (d *taskDesk) statuses(t *testing.T) (url string) {
	t.Helper()
	return d.gatewayWith(t, front.Config{StreamAfter: patience})
}

func (d *taskDesk) gatewayWith(t *testing.T, http front.Config) (url string) {
	t.Helper()
	return start(t, gateway.Config{HTTP: http, Upstreams: []upstream.Config{{Name: "up", URL: d.URL}}})
}

func (d *taskDesk) call(c *mcptest.Call) {
	var name string
	c.Param("name", &name)
	var wish json.RawMessage
	wanted := c.Param("task", &wish)
	if !d.stateful {
		wanted = c.Param("_meta|io.modelcontextprotocol/clientCapabilities|extensions|io.modelcontextprotocol/tasks", &wish)
	}
	switch {
	case name == "quick", name == "maybe" && !wanted:
		c.Text("done at once")
		return
	case !wanted && d.stateful:
		c.Error(-32601, "Tool slow requires task augmentation")
		return
	case !wanted:
		c.Status(400, "application/json", fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"tasks are needed","data":{"requiredCapabilities":%s}}}`,
			c.ID, taskExtension))
		return
	}
	d.mu.Lock()
	j := &job{id: fmt.Sprintf("job-%d", len(d.jobs)+1), call: c, status: "working", changed: make(chan struct{}),
		answer: make(chan string, 10)}
	d.jobs[j.id] = j
	d.mu.Unlock()
	if d.stateful {
		c.Result(`{"task":` + d.show(j) + `,"_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}`)
	} else {
		merged := `{"resultType":"task",` + d.show(j)[1:]
		c.Result(merged)
	}
	d.began <- j
}

// show returns a task in the server's form.
func (d *taskDesk) show(j *job) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d.stateful {
		return fmt.Sprintf(`{"taskId":%q,"status":%q,"statusMessage":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":1}`,
			j.id, j.status, j.message)
	}
	more := ""
	if j.outcome != "" {
		more = "," + j.outcome
	}
	if j.question != "" {
		more = `,"inputRequests":{"q":{"method":"elicitation/create","params":` + j.question + `}}`
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"statusMessage":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":1%s}`,
		j.id, j.status, j.message, more)
}

// find returns the job that a request names, or answers that there is none.
func (d *taskDesk) find(c *mcptest.Call) *job {
	var id string
	c.Param("taskId", &id)
	d.mu.Lock()
	j := d.jobs[id]
	if d.lost {
		j = nil
	}
	d.mu.Unlock()
	if j == nil {
		c.Error(-32602, "Task not found: "+id)
	}
	return j
}

// forget makes the server lose all jobs.
func (d *taskDesk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
}

// result answers tasks/result: it asks the questions and waits for the end.
func (d *taskDesk) result(c *mcptest.Call) {
	j := d.find(c)
	if j == nil {
		return
	}
	related := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, j.id)
	for {
		j.mu.Lock()
		question, outcome, status, changed := j.question, j.outcome, j.status, j.changed
		j.mu.Unlock()
		var kind map[string]json.RawMessage
		_ = json.Unmarshal([]byte("{"+outcome+"}"), &kind) // made here, always valid
		switch {
		case question != "":
			m, err := c.Ask("elicitation/create", question[:len(question)-1]+","+related+"}")
			if err != nil {
				return
			}
			action := "error"
			m.Value("action", &action)
			j.goesOn()
			j.answer <- action
			continue
		case kind["error"] != nil:
			c.Error(-32603, "the job broke")
			return
		case kind["result"] != nil:
			result := string(kind["result"])
			c.Result(result[:len(result)-1] + "," + related + "}")
			return
		case status == "cancelled":
			c.Error(-32603, "the job was cancelled")
			return
		}
		select {
		case <-changed:
		case <-c.Done():
			return
		}
	}
}

func (j *job) set(status, outcome string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status, j.outcome, j.question = status, outcome, ""
	close(j.changed)
	j.changed = make(chan struct{})
}

// goesOn makes the job work again, unless it was cancelled while it asked.
func (j *job) goesOn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.status == "input_required" {
		j.status, j.question = "working", ""
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// says sets the message of the status.
func (j *job) says(message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.message = message
}

// finish ends the job with a text.
func (j *job) finish(text string) {
	j.set("completed", fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, text))
}

// breaks ends the job with a JSON-RPC error.
func (j *job) breaks() { j.set("failed", `"error":{"code":-32603,"message":"the job broke"}`) }

// ask makes the job wait for an answer.
func (j *job) ask(message string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.status = "input_required"
	j.question = fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{}}}`, message)
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *job) ended() bool { return j.now() != "working" && j.now() != "input_required" }

func (j *job) now() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// until waits until the job has a status.
func (j *job) until(t *testing.T, status string) {
	t.Helper()
	for {
		j.mu.Lock()
		now, changed := j.status, j.changed
		j.mu.Unlock()
		if now == status {
			return
		}
		select {
		case <-changed:
		case <-deadline(t).Done():
			t.Fatalf("the job is %s, not %s", now, status)
		}
	}
}

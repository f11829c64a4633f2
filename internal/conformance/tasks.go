package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// The suite has scenarios for the tasks extension, but no public server has the tools that
// they look for. tasker does, for either era.

// extension is the capability of a client or server that supports tasks.
const extension = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// tasker is a server with tools that run as tasks. close ends it.
type tasker struct {
	*mcptest.Server
	stateful bool
	over     chan struct{}  // closed by close
	wg       sync.WaitGroup // for jobs that are running

	mu   sync.Mutex // guards the fields below, and those of jobs
	jobs map[string]*job
}

// job is one task.
type job struct {
	id, status string
	outcome    string            // member "result" or "error", "" until the job ends
	questions  map[string]string // by key
	changed    chan struct{}     // closed and replaced at each change
}

func newTasker(stateful bool) *tasker {
	rev := wire.Stateless()
	if stateful {
		rev = wire.NewestStateful()
	}
	t := &tasker{Server: mcptest.NewServer(rev), stateful: stateful, over: make(chan struct{}),
		jobs: make(map[string]*job)}
	t.Offers(extension)
	if stateful {
		t.Offers(`{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}}`)
	}
	t.On("tools/list", func(c *mcptest.Call) {
		list := `{"name":"greet","inputSchema":{"type":"object"}}`
		for _, name := range []string{"slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
			"test_tool_with_task"} {
			list += fmt.Sprintf(`,{"name":%q,"inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}`, name)
		}
		c.Result(`{"tools":[` + list + `]}`)
	})
	t.On("tools/call", t.call)
	t.On("tasks/get", t.about(func(c *mcptest.Call, j *job) { c.Result(t.show(j)) }))
	t.On("tasks/cancel", t.about(t.cancel))
	t.On("tasks/update", t.about(t.update))
	t.On("tasks/result", t.about(t.result))
	return t
}

func (t *tasker) close() {
	close(t.over)
	t.Server.Close()
	t.wg.Wait()
}

// call answers tools/call.
func (t *tasker) call(c *mcptest.Call) {
	var name, who string
	c.Param("name", &name)
	if name == "greet" {
		c.Param("arguments|name", &who)
		c.Text("Hello, " + who + "!")
		return
	}
	var wish json.RawMessage
	knows := c.Param("task", &wish)
	if !t.stateful {
		knows = c.Param("_meta|io.modelcontextprotocol/clientCapabilities|extensions|io.modelcontextprotocol/tasks", &wish)
	}
	var seconds float64
	c.Param("arguments|seconds", &seconds)
	switch {
	case !knows && name == "slow_compute" && !t.stateful:
		t.wait(seconds)
		c.Text("computed")
		return
	case !knows && t.stateful:
		c.Error(-32601, "this tool runs as a task")
		return
	case !knows:
		c.Status(400, "application/json", fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"tasks are needed","data":{"requiredCapabilities":%s}}}`,
			c.ID, extension))
		return
	}
	if name == "test_tool_with_task" {
		if t.stateful { // rounds are part of the task
			m, err := c.Ask("elicitation/create", form("user_name"))
			if err != nil {
				return
			}
			m.Value("content|name", &who)
			m.Value("content|user_name", &who)
		} else if !c.Param("inputResponses|user_name|content|name", &who) &&
			!c.Param("inputResponses|user_name|content|user_name", &who) {
			c.Result(`{"resultType":"input_required","requestState":"round 1","inputRequests":{"user_name":{"method":"elicitation/create","params":` + form("name") + `}}}`)
			return
		}
	}
	j := t.begin()
	if t.stateful {
		c.Result(`{"task":` + t.show(j) + `}`)
	} else {
		c.Result(`{"resultType":"task",` + t.show(j)[1:])
	}
	switch name {
	case "slow_compute":
		t.later(j, seconds, said("computed", false))
	case "failing_job":
		t.later(j, 1, said("it failed", true))
	case "protocol_error_job":
		t.later(j, 0.2, `"error":{"code":-32603,"message":"it broke"}`)
	case "test_tool_with_task":
		t.later(j, 0.2, said("Hello, "+who, false))
	case "confirm_delete":
		t.ask(j, "confirm")
	case "multi_input":
		t.ask(j, "first", "second")
	}
}

// wait waits until the time is over or the server closes.
func (t *tasker) wait(seconds float64) {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-t.over:
	}
}

func said(text string, failed bool) string {
	return fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}],"isError":%t}`, text, failed)
}

func form(what string) string {
	return fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":{"type":"object","properties":{%q:{"type":"string"}}}}`, "Tell "+what, what)
}

func (t *tasker) begin() *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := &job{id: "task-" + strconv.Itoa(len(t.jobs)+1), status: "working", changed: make(chan struct{})}
	t.jobs[j.id] = j
	return j
}

// set changes a job. The caller holds mu.
func (j *job) set(status, outcome string) {
	j.status, j.outcome = status, outcome
	close(j.changed)
	j.changed = make(chan struct{})
}

// later ends a job after a while, unless it was cancelled.
func (t *tasker) later(j *job, seconds float64, outcome string) {
	t.wg.Go(func() {
		t.wait(seconds)
		t.end(j, outcome)
	})
}

func (t *tasker) end(j *job, outcome string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j.status != "working" && j.status != "input_required" {
		return
	}
	status := "completed"
	if outcome[1] == 'e' || t.stateful && outcome[len(outcome)-5:] == "true}" { // error, isError
		status = "failed"
	}
	j.set(status, outcome)
}

// ask makes a job wait for answers.
func (t *tasker) ask(j *job, keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	j.questions = make(map[string]string)
	for _, key := range keys {
		j.questions[key] = form(key)
	}
	j.set("input_required", "")
}

// answered takes the answer to a question. The last answer ends the job.
func (t *tasker) answered(j *job, key string) {
	t.mu.Lock()
	delete(j.questions, key)
	open := len(j.questions)
	t.mu.Unlock()
	if open == 0 {
		t.end(j, said("done as told", false))
	}
}

func (t *tasker) show(j *job) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const at = `"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"`
	if t.stateful {
		return fmt.Sprintf(`{"taskId":%q,"status":%q,%s,"ttl":600000,"pollInterval":100}`, j.id, j.status, at)
	}
	more := ""
	if j.outcome != "" {
		more = "," + j.outcome
	}
	if j.status == "input_required" {
		requests := ""
		for key, params := range j.questions {
			if requests != "" {
				requests += ","
			}
			requests += fmt.Sprintf(`%q:{"method":"elicitation/create","params":%s}`, key, params)
		}
		more = `,"inputRequests":{` + requests + `}`
	}
	return fmt.Sprintf(`{"taskId":%q,"status":%q,%s,"ttlMs":600000,"pollIntervalMs":100%s}`, j.id, j.status, at, more)
}

// about finds the job that a request names.
func (t *tasker) about(do func(*mcptest.Call, *job)) func(*mcptest.Call) {
	return func(c *mcptest.Call) {
		var wish json.RawMessage
		if !t.stateful &&
			!c.Param("_meta|io.modelcontextprotocol/clientCapabilities|extensions|io.modelcontextprotocol/tasks", &wish) {
			c.Status(400, "application/json", fmt.Sprintf(
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32021,"message":"tasks are needed","data":{"requiredCapabilities":%s}}}`,
				c.ID, extension))
			return
		}
		var id string
		c.Param("taskId", &id)
		t.mu.Lock()
		j := t.jobs[id]
		t.mu.Unlock()
		if j == nil {
			c.Error(-32602, "Task not found")
			return
		}
		do(c, j)
	}
}

func (t *tasker) cancel(c *mcptest.Call, j *job) {
	t.mu.Lock()
	ended := j.status != "working" && j.status != "input_required"
	if !ended {
		j.set("cancelled", "")
	}
	t.mu.Unlock()
	switch {
	case !t.stateful:
		c.Result(`{}`)
	case ended:
		c.Error(-32602, "the task has ended")
	default:
		c.Result(t.show(j))
	}
}

// update answers tasks/update of the extension.
func (t *tasker) update(c *mcptest.Call, j *job) {
	var answers map[string]json.RawMessage
	c.Param("inputResponses", &answers)
	c.Result(`{}`)
	for key := range answers {
		t.answered(j, key)
	}
}

// result answers tasks/result of 2025-11-25: it asks, and waits for the end.
func (t *tasker) result(c *mcptest.Call, j *job) {
	related := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, j.id)
	asked := make(map[string]bool)
	for {
		t.mu.Lock()
		outcome, status, changed := j.outcome, j.status, j.changed
		for key, params := range j.questions {
			if asked[key] {
				continue
			}
			asked[key] = true
			t.wg.Go(func() {
				if _, err := c.Ask("elicitation/create", params[:len(params)-1]+","+related+"}"); err == nil {
					t.answered(j, key)
				}
			})
		}
		t.mu.Unlock()
		var end struct{ Result, Error json.RawMessage }
		_ = json.Unmarshal([]byte("{"+outcome+"}"), &end) // made here, always valid
		switch {
		case end.Error != nil:
			c.Error(-32603, "it broke")
			return
		case end.Result != nil:
			c.Result(string(end.Result[:len(end.Result)-1]) + "," + related + "}")
			return
		case status == "cancelled":
			c.Error(-32603, "it was cancelled")
			return
		}
		select {
		case <-changed:
		case <-c.Done():
			return
		}
	}
}

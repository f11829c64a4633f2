package catalog

import (
	"context"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// asTask returns a call of a tool in the form that its upstream needs to run it.
func (l Lens) asTask(to target) (*mcp.Call, error) {
	call := l.call
	if call.Method != mcp.MethodToolsCall {
		return call, nil
	}
	task := call.Task
	switch {
	case to.task == mustTask && task == nil:
		task = mcp.Raw(`{}`)
	case to.task == noTask && task != nil:
		if l.summaryFor(l.plan.visibleTo(call), nil, nil, "").offers.coreTasks {
			return nil, mcp.Errorf(failure.NoTask, "Tool %s does not run as a task: call it without the member task", call.Name)
		}
		task = nil // a server without tasks ignores the member
	default:
		return call, nil
	}
	inner := call.Clone()
	inner.Task = task
	if call.Task == nil && call.Tasks == mcp.CoreTasks {
		inner.Tasks = mcp.NoTasks // tasks for this client are made when it asks for them
	}
	return inner, nil
}

// taskID is the content of the id of a task that a client gets. The id is sealed and bound to the
// user and the client: it opens for no one else, and nothing is stored for it.
type taskID struct {
	form     mcp.TaskForm // the form in which the client knows the task
	upstream string
	tool     string // that made the task, by its original name
	native   string // its id at the upstream
	expires  int64  // Unix seconds
}

// Bounds on the sealed content of a task's id.
const (
	taskVersion = 2
	maxSealed   = 8 << 10 // bytes of its text
	// The id of a task is valid for the life that its server states, within these bounds. Later the
	// server may have given the id to another task.
	leastTaskLife = 24 * time.Hour
	mostTaskLife  = 30 * 24 * time.Hour
)

// taskExpiry returns when the id of a task that begins now expires, in Unix seconds.
func taskExpiry(task mcp.Raw) int64 {
	life := mostTaskLife
	ttl, _ := task.Member("ttlMs")
	if ms, err := strconv.ParseInt(string(ttl), 10, 64); err == nil && ms < mostTaskLife.Milliseconds() {
		life = max(leastTaskLife, time.Duration(ms)*time.Millisecond)
	}
	return time.Now().Add(life).Unix()
}

func (c *Catalog) sealTask(id taskID, caller *mcp.Caller) string {
	plain := binary.AppendVarint([]byte{taskVersion, byte(id.form)}, id.expires)
	for _, part := range [...]string{id.upstream, id.tool} {
		plain = append(binary.AppendUvarint(plain, uint64(len(part))), part...)
	}
	return c.taskSeal.Seal(append(plain, id.native...), caller.User(), caller.ClientID)
}

// openTask opens the id of a task. ok is false for an id of another caller, and for tasks of
// upstreams that no longer exist.
func (c *Catalog) openTask(public string, caller *mcp.Caller) (id taskID, s *source, ok bool) {
	if len(public) > maxSealed {
		return id, nil, false
	}
	plain, err := c.taskSeal.Open(public, caller.User(), caller.ClientID)
	if err != nil || len(plain) < 2 || plain[0] != taskVersion {
		return id, nil, false
	}
	id.form, plain = mcp.TaskForm(plain[1]), plain[2:]
	expires, n := binary.Varint(plain)
	if n <= 0 || time.Now().Unix() >= expires {
		return id, nil, false
	}
	id.expires, plain = expires, plain[n:]
	for _, part := range [...]*string{&id.upstream, &id.tool} {
		size, n := binary.Uvarint(plain)
		if n <= 0 || size > uint64(len(plain)-n) {
			return id, nil, false
		}
		*part, plain = string(plain[n:n+int(size)]), plain[n+int(size):]
	}
	id.native = string(plain)
	for _, s := range c.sources {
		if s.naming.upstream == id.upstream {
			return id, s, id.native != ""
		}
	}
	return id, nil, false
}

// task forwards a request about a task to its upstream. The target that policy has decided
// on must be the tool that made the task.
func (l Lens) task(ctx context.Context) (*mcp.Reply, error) {
	c, call := l.c, l.call
	id, s, ok := c.openTask(call.Name, &call.Caller)
	if ok {
		ok = id.form == call.Tasks && call.Target == s.naming.target(tools, id.tool)
	}
	if !ok {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		switch offers := l.summaryFor(l.plan.visibleTo(call), nil, nil, "").offers; {
		case call.Tasks == mcp.CoreTasks && offers.coreTasks, call.Tasks == mcp.ExtensionTasks && offers.tasks():
			return nil, mcp.ErrUnknown(call.Method, call.Name)
		case call.Tasks == mcp.NoTasks && offers.tasks():
			return nil, mcp.ErrTasksUndeclared()
		}
		return nil, mcp.ErrMethod(call.Method)
	}
	inner := call.Clone()
	inner.Name = id.native
	inner.Notify = func(e mcp.Event) {
		if e, ok := s.naming.event(e); ok {
			e.Params = relate(e.Params, id.native, call)
			call.Notify(e)
		}
	}
	reply, err := s.upstream.Handle(ctx, inner)
	if err != nil {
		return nil, s.naming.taskFailure(err, id.native, call.Name)
	}
	c.taskFollowers.saw(call, s.index, id.native, call.Name)
	return s.naming.taskReply(call, reply), nil
}

// handOut returns the reply to a tools/call that became a task, with the id for its client.
func (c *Catalog) handOut(s *source, call *mcp.Call, tool string, reply *mcp.Reply) (*mcp.Reply, error) {
	native := mcp.TaskID(reply.Result)
	if native == "" || call.Tasks == mcp.NoTasks {
		return nil, mcp.UpstreamError(failure.UpstreamBadAnswer, s.naming.upstream, mcp.ExecutedUnknown,
			"Upstream %s answered with a task that nobody can ask for", s.naming.upstream)
	}
	public := c.sealTask(taskID{call.Tasks, s.naming.upstream, tool, native, taskExpiry(reply.Result)}, &call.Caller)
	if len(public) > maxSealed {
		return nil, mcp.Errorf(failure.NoTask,
			"The name of this tool is too long for it to run as a task").WithCode(mcp.CodeInternal)
	}
	c.taskFollowers.saw(call, s.index, native, public)
	return &mcp.Reply{Result: reply.Result.With("taskId", mcp.String(public)), Task: true}, nil
}

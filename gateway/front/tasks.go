package front

import (
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Inside the gateway, tasks have the form of the extension. A client of 2025-11-25 asks for tasks
// one by one, in a form that package wire translates.

// coreTasks records what a client with a session knows about tasks. It refuses methods that
// the client's revision does not have.
func (x *exchange) coreTasks(p params) error {
	method := x.call.Method
	switch {
	case method == mcp.MethodTasksList, method == mcp.MethodTasksUpdate, mcp.IsTaskMethod(method) && !x.rev.CoreTasks:
		return mcp.ErrMethod(method) // nobody keeps what would be on a list
	case !x.rev.CoreTasks:
		return nil
	}
	x.call.Tasks = mcp.CoreTasks
	if method != mcp.MethodToolsCall || p.task == nil {
		return nil
	}
	x.call.Task = p.task
	return wire.CheckObject(p.task, "ttl")
}

// extensionTasks records whether a request declares the extension, and reads the answers that
// it brings for a task.
func (x *exchange) extensionTasks(p params) error {
	if mcp.DeclaresTasks(p.caps) {
		x.call.Tasks = mcp.ExtensionTasks
	}
	if x.call.Method != mcp.MethodTasksUpdate {
		return nil
	}
	if p.answers == nil {
		return refuse.InvalidParams("tasks/update needs inputResponses")
	}
	return x.readAnswers(p.answers)
}

// mayAnswer reports whether the client understands a result. A task is only for clients that
// asked for it, or that declared in this request that they know tasks.
func (x *exchange) mayAnswer(reply *mcp.Reply) bool {
	return !reply.Task || x.call.Method == mcp.MethodToolsCall && (x.call.Task != nil || x.call.Tasks == mcp.ExtensionTasks)
}

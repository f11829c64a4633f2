package mcp

import "github.com/gatehouse-mcp/gatehouse/internal/failure"

// Tasks: a tools/call may be answered with a task instead of its result, to be asked for
// later. There are two forms. In 2025-11-25 the client asks for a task with each call
// (basic/utilities/tasks); in the extension of 2026-07-28 the server decides, once the
// client has declared that it knows tasks. The words here are those of the extension:
//
//	tools/call     Reply.Task: Result is the task, flat, with resultType "task"
//	tasks/get      the task; with its result, error or inputRequests for ExtensionTasks
//	tasks/update   Answers are the answers to inputRequests
//	tasks/cancel   the cancelled task for CoreTasks, nothing for ExtensionTasks
//	tasks/result   only for CoreTasks: waits for the result, and may Ask
//
// Call.Name is the task's id. The catalog seals an id for a client, with the upstream, the tool and
// the caller, so that nothing is kept of a task and every replica with the key can route it; policy
// decides on the tool. Another caller, or one with the other form of tasks, gets the answer for an
// id that does not exist.
//
// The gateway offers the tasks that an upstream has in the client's own form, and no client needs
// others: a caller who knows no tasks, or those of the other form, gets a result all the same,
// since the upstream's edge then makes the task, waits for it, and puts its questions as those of
// the call. A client of 2026-07-28 is also handed the tasks of a stateful upstream, for tools that
// run as nothing else. Lists of tasks are not offered: their entries are not kept.

// TasksExtension is the extension for tasks in 2026-07-28.
const TasksExtension = "io.modelcontextprotocol/tasks"

// TaskForm is the form of tasks that a client knows.
type TaskForm uint8

// Forms of tasks.
const (
	NoTasks TaskForm = iota
	CoreTasks
	ExtensionTasks
)

// MaxTaskID is the length in bytes of the longest task id that is accepted from a server.
// Sealed, it appears in headers.
const MaxTaskID = 1024

// States of a task, the same in both forms.
const (
	TaskWorking       = "working"
	TaskInputRequired = "input_required"
	TaskCompleted     = "completed"
	TaskFailed        = "failed"
	TaskCancelled     = "cancelled"
)

// IsTaskMethod reports whether the method is about an existing task.
func IsTaskMethod(method string) bool {
	switch method {
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodTasksResult:
		return true
	}
	return false
}

// TaskID returns the id of a task object, "" if it has no acceptable one.
func TaskID(task Raw) string {
	raw, _ := task.Member("taskId")
	if id := raw.Text(); len(id) <= MaxTaskID {
		return id
	}
	return ""
}

// DeclaresTasks reports whether a ClientCapabilities object has the extension.
func DeclaresTasks(caps Raw) bool {
	extensions, ok := caps.Member("extensions")
	if !ok {
		return false
	}
	settings, _ := extensions.Member(TasksExtension)
	return settings.IsObject()
}

// OffersTasks reports whether a ServerCapabilities object offers tools as tasks of
// 2025-11-25, and whether these can be cancelled.
func OffersTasks(caps Raw) (offered, cancel bool) {
	tasks, _ := caps.Member("tasks")
	requests, _ := tasks.Member("requests")
	of, _ := requests.Member("tools")
	call, _ := of.Member("call")
	_, cancel = tasks.Member("cancel")
	return call.IsObject(), cancel && call.IsObject()
}

// ErrTasksUndeclared is the error for a client that uses the extension without declaring it
// in the request.
func ErrTasksUndeclared() *Error {
	return Errorf(failure.MissingCapability, "Missing required client capability: tasks").
		WithData(Object("requiredCapabilities", Object("extensions", Object(TasksExtension, Raw("{}")))))
}

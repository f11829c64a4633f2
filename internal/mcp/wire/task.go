package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// Tasks of 2025-11-25 (basic/utilities/tasks) in the words of the extension that they
// became, and back: what differs is how two members are named, and that the answer to
// tools/call has the task one level down.

// NoteTaskStatus is what mcp.NoteTask is in 2025-11-25.
const NoteTaskStatus = "notifications/tasks/status"

// ReadTask returns a task object of 2025-11-25 in the words of the inner language. One
// that does not tell how long it lives counts as one that lives for ever.
func ReadTask(task mcp.Raw) mcp.Raw {
	ttl, ok := task.Member("ttl")
	if !ok {
		ttl = mcp.Raw("null")
	}
	poll, _ := task.Member("pollInterval")
	return task.Edit(mcp.Edit{Name: "ttl"}, mcp.Edit{Name: "ttlMs", Value: ttl},
		mcp.Edit{Name: "pollInterval"}, mcp.Edit{Name: "pollIntervalMs", Value: poll})
}

// ReadCreatedTask reads the answer of a 2025-11-25 server to a tools/call that was to
// run as a task. ok is false for one without a task: it is the result of the call.
func ReadCreatedTask(result mcp.Raw) (task mcp.Raw, ok bool) {
	task, ok = result.Member("task")
	if !ok || !task.IsObject() {
		return nil, false
	}
	meta, _ := result.Member("_meta")
	return ReadTask(task).Edit(mcp.Edit{Name: "resultType", Value: mcp.Raw(`"task"`)}, mcp.Edit{Name: "_meta", Value: meta}), true
}

// coreTask is the inverse of ReadTask. What only the extension has in a task goes.
func coreTask(task mcp.Raw) mcp.Raw {
	ttl, ok := task.Member("ttlMs")
	if !ok {
		ttl = mcp.Raw("null")
	}
	poll, _ := task.Member("pollIntervalMs")
	return task.Edit(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "result"}, mcp.Edit{Name: "error"}, mcp.Edit{Name: "inputRequests"},
		mcp.Edit{Name: "ttlMs"}, mcp.Edit{Name: "ttl", Value: ttl},
		mcp.Edit{Name: "pollIntervalMs"}, mcp.Edit{Name: "pollInterval", Value: poll})
}

// coreCreatedTask is the inverse of ReadCreatedTask.
func coreCreatedTask(result mcp.Raw) mcp.Raw {
	out := mcp.Object("task", coreTask(result.Without("_meta")))
	if meta, ok := result.Member("_meta"); ok {
		out = out.With("_meta", meta)
	}
	return out
}

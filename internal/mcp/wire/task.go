package wire

import "github.com/gatehouse-mcp/gatehouse/internal/mcp"

// These functions convert tasks of 2025-11-25 (basic/utilities/tasks) to and from the
// extension that replaced them. Two members have other names, and in the answer to
// tools/call the task is one level deeper.

// NoteTaskStatus is mcp.NoteTask in 2025-11-25.
const NoteTaskStatus = "notifications/tasks/status"

// ReadTask converts a task object of 2025-11-25 to the inner language. A task without a
// time to live counts as one that lives for ever.
func ReadTask(task mcp.Raw) mcp.Raw {
	ttl, ok := task.Member("ttl")
	if !ok {
		ttl = mcp.Raw("null")
	}
	poll, _ := task.Member("pollInterval")
	return task.Edit(mcp.Edit{Name: "ttl"}, mcp.Edit{Name: "ttlMs", Value: ttl},
		mcp.Edit{Name: "pollInterval"}, mcp.Edit{Name: "pollIntervalMs", Value: poll})
}

// ReadCreatedTask reads the answer of a 2025-11-25 server to a tools/call that asked for a
// task. ok is false if there is no task: then it is the result of the call.
func ReadCreatedTask(result mcp.Raw) (task mcp.Raw, ok bool) {
	task, ok = result.Member("task")
	if !ok || !task.IsObject() {
		return nil, false
	}
	meta, _ := result.Member("_meta")
	return ReadTask(task).Edit(mcp.Edit{Name: "resultType", Value: mcp.Raw(`"task"`)},
		mcp.Edit{Name: "_meta", Value: meta}), true
}

// coreTask is the inverse of ReadTask. It drops what only the extension has.
func coreTask(task mcp.Raw) mcp.Raw {
	ttl, ok := task.Member("ttlMs")
	if !ok {
		ttl = mcp.Raw("null")
	}
	poll, _ := task.Member("pollIntervalMs")
	return task.Edit(mcp.Edit{Name: "resultType"}, mcp.Edit{Name: "result"}, mcp.Edit{Name: "error"},
		mcp.Edit{Name: "inputRequests"},
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

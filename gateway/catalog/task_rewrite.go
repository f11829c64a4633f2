package catalog

import (
	"errors"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// taskReply returns what an upstream says of a task in the form for the client: under the
// id that the client used, and with public URIs.
func (n naming) taskReply(call *mcp.Call, r *mcp.Reply) *mcp.Reply {
	switch {
	case r == nil:
		return nil
	case r.Ask != nil:
		ask := *n.ask(r.Ask)
		ask.Requests = append([]mcp.InputRequest(nil), ask.Requests...)
		for i := range ask.Requests {
			ask.Requests[i].Params = related(ask.Requests[i].Params, call.Name)
		}
		return &mcp.Reply{Ask: &ask}
	case call.Method == mcp.MethodTasksResult:
		result := n.reply(mcp.MethodToolsCall, &mcp.Reply{Result: r.Result}).Result
		return &mcp.Reply{Result: related(result, call.Name)}
	}
	return &mcp.Reply{Result: n.task(r.Result, call.Name)}
}

// task returns a task under its public id. An object without an id, such as the answer to
// an update, gets none.
func (n naming) task(task mcp.Raw, public string) mcp.Raw {
	task = task.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		if mcp.Named(name, "taskId") {
			return mcp.String(public)
		}
		return value
	})
	if n.plain() || !mentions(task) {
		return task
	}
	return task.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "result"):
			return n.result(mcp.MethodToolsCall, value)
		case mcp.Named(name, "inputRequests"):
			return value.Map(func(_ []byte, request mcp.Raw) mcp.Raw { return n.inputRequest(request) })
		case mcp.Named(name, "error"):
			return value.Map(func(name []byte, value mcp.Raw) mcp.Raw {
				if mcp.Named(name, "data") {
					return n.member(value, "uri")
				}
				return value
			})
		}
		return value
	})
}

func (n naming) inputRequest(request mcp.Raw) mcp.Raw {
	sampling := false
	request.Members(func(name []byte, value mcp.Raw) bool {
		sampling = sampling || mcp.Named(name, "method") && value.Text() == mcp.MethodCreateMessage
		return true
	})
	if !sampling {
		return request
	}
	return request.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		if mcp.Named(name, "params") {
			return n.sampling(value)
		}
		return value
	})
}

// taskFailure returns the error of a call about a task in the form for the client.
// Upstreams repeat ids in their messages.
func (n naming) taskFailure(err error, native, public string) error {
	err = n.failure(err)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || !strings.Contains(e.Message, native) {
		return err
	}
	changed := *e
	changed.Message = replaceWord(e.Message, native, public)
	return &changed
}

// replaceWord replaces a word only where it stands alone: an id may be as short as a digit.
func replaceWord(text, word, by string) string {
	var out strings.Builder
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			out.WriteString(text[at:])
			return out.String()
		}
		i += at
		end := i + len(word)
		if i > 0 && inWord(text[i-1]) && inWord(word[0]) || end < len(text) && inWord(text[end]) && inWord(word[len(word)-1]) {
			out.WriteString(text[at : i+1])
			at = i + 1
			continue
		}
		out.WriteString(text[at:i])
		out.WriteString(by)
		at = end
	}
}

func inWord(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c >= 0x80
}

// related records in _meta which task a message belongs to (2025-11-25
// basic/utilities/tasks#related-task-metadata).
func related(object mcp.Raw, public string) mcp.Raw {
	meta, _ := object.Member("_meta")
	if !meta.IsObject() {
		meta = mcp.Raw(`{}`)
	}
	if len(object) == 0 {
		object = mcp.Raw(`{}`)
	}
	return object.With("_meta", meta.With(wire.MetaRelatedTask, mcp.Object("taskId", mcp.String(public))))
}

// relate translates an event's reference to its task; a reference to another task is
// removed.
func relate(params mcp.Raw, native string, call *mcp.Call) mcp.Raw {
	meta, _ := params.Member("_meta")
	task, ok := meta.Member(wire.MetaRelatedTask)
	if !ok {
		return params
	}
	if id, _ := task.Member("taskId"); id.Text() == native && call.Tasks == mcp.CoreTasks {
		return related(params, call.Name)
	}
	return params.With("_meta", meta.Without(wire.MetaRelatedTask))
}

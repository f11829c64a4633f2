package catalog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/catalog/fit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Everything here changes URIs and the logger's name in what an upstream says, and nothing
// else: all other bytes stay. Text without a URI costs one search. A member is changed
// under every spelling that some reader accepts for it, and every time it occurs: a server
// must not be able to point a client at another server's resource.

// reply returns the reply to a call of the method in the form for clients.
func (n naming) reply(method string, r *mcp.Reply) *mcp.Reply {
	if r == nil || n.plain() {
		return r
	}
	switch {
	case r.Result != nil:
		if r.Outline.LacksURIs(r.Result) {
			return r
		}
		if result := n.result(method, r.Result); !same(result, r.Result) {
			return &mcp.Reply{Result: result, Task: r.Task}
		}
	case r.Ask != nil:
		if ask := n.ask(r.Ask); ask != r.Ask {
			return &mcp.Reply{Ask: ask}
		}
	}
	return r
}

func (n naming) result(method string, result mcp.Raw) mcp.Raw {
	if !mentions(result) {
		return result
	}
	return result.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "content") && method == mcp.MethodToolsCall:
			return n.blocks(value, true)
		case mcp.Named(name, "messages") && method == mcp.MethodPromptsGet:
			return n.messages(value)
		case mcp.Named(name, "contents") && method == mcp.MethodResourcesRead,
			mcp.Named(name, "resources") && method == mcp.MethodDirectoryRead:
			return value.Map(func(_ []byte, content mcp.Raw) mcp.Raw { return n.member(content, "uri") })
		case mcp.Named(name, "_meta"):
			return n.meta(value)
		}
		return value
	})
}

// ask changes the messages that a server wants to sample. Elicitation URLs stay, because
// they are for the user's browser; roots belong to the client.
func (n naming) ask(a *mcp.Ask) *mcp.Ask {
	changed := a
	for i, request := range a.Requests {
		if request.Method != mcp.MethodCreateMessage || !mentions(request.Params) {
			continue
		}
		params := n.sampling(request.Params)
		if same(params, request.Params) {
			continue
		}
		if changed == a {
			copied := *a
			copied.Requests = append([]mcp.InputRequest(nil), a.Requests...)
			changed = &copied
		}
		changed.Requests[i].Params = params
	}
	return changed
}

// sampling changes the params of a sampling request.
func (n naming) sampling(params mcp.Raw) mcp.Raw {
	return params.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		if mcp.Named(name, "messages") {
			return n.messages(value)
		}
		return value
	})
}

// messages changes the messages of a prompt or of a sampling request.
func (n naming) messages(messages mcp.Raw) mcp.Raw {
	return messages.Map(func(_ []byte, message mcp.Raw) mcp.Raw {
		return message.Map(func(name []byte, value mcp.Raw) mcp.Raw {
			if mcp.Named(name, "content") {
				return n.blocks(value, true)
			}
			return value
		})
	})
}

// blocks changes a content block or an array of them. A tool_result contains blocks itself,
// one level deep.
func (n naming) blocks(value mcp.Raw, outer bool) mcp.Raw {
	if value.IsArray() {
		return value.Map(func(_ []byte, block mcp.Raw) mcp.Raw { return n.block(block, outer) })
	}
	return n.block(value, outer)
}

// block changes the block for each of its type members: if there are several, some readers
// take the first and some the last.
func (n naming) block(block mcp.Raw, outer bool) mcp.Raw {
	var link, embedded, result bool
	block.Members(func(name []byte, value mcp.Raw) bool {
		if mcp.Named(name, "type") {
			switch value.Text() {
			case "resource_link":
				link = true
			case "resource":
				embedded = true
			case "tool_result":
				result = outer
			}
		}
		return true
	})
	if !link && !embedded && !result {
		return block
	}
	return block.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case link && mcp.Named(name, "uri"):
			return n.text(value)
		case embedded && mcp.Named(name, "resource"):
			return n.member(value, "uri")
		case result && mcp.Named(name, "content"):
			return n.blocks(value, false)
		}
		return value
	})
}

// meta changes the _meta of a tool or result, where MCP Apps put the URI of their page:
// ui.resourceUri, and ui/resourceUri in older versions.
func (n naming) meta(meta mcp.Raw) mcp.Raw {
	return meta.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		switch {
		case mcp.Named(name, "ui"):
			return n.member(value, "resourceUri")
		case mcp.Named(name, "ui/resourceUri"):
			return n.text(value)
		}
		return value
	})
}

// member changes one member of an object, a URI.
func (n naming) member(object mcp.Raw, member string) mcp.Raw {
	if !object.IsObject() {
		return object
	}
	return object.Map(func(name []byte, value mcp.Raw) mcp.Raw {
		if mcp.Named(name, member) {
			return n.text(value)
		}
		return value
	})
}

func (n naming) text(value mcp.Raw) mcp.Raw {
	uri, ok := value.StringValue()
	if !ok || uri == "" {
		return value
	}
	return mcp.String(n.uri(uri))
}

// event returns an event of a call in the form for clients; false if they would refuse it. The
// logger's name begins with the upstream's.
func (n naming) event(e mcp.Event) (mcp.Event, bool) {
	var err error
	if e.Params, err = fit.Event(e.Method, e.Params); err != nil {
		return e, false
	}
	switch e.Method {
	case mcp.NoteMessage:
		e.Params = n.logged(e.Params)
	case mcp.NoteResourceUpdated:
		if !n.plain() {
			e.Params = n.member(e.Params, "uri")
		}
	}
	return e, true
}

// logged returns the params of a log message with the upstream's name before the logger's.
func (n naming) logged(params mcp.Raw) mcp.Raw {
	name := n.upstream
	if logger := params.At("logger").Text(); logger != "" {
		name += "/" + logger
	}
	return params.With("logger", mcp.String(name))
}

// failure returns the error of a call in the form for clients.
func (n naming) failure(err error) error {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || n.plain() || !mentions(e.Data) {
		return err
	}
	changed := *e
	changed.Data = n.member(e.Data, "uri")
	return &changed
}

func same(a, b mcp.Raw) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mentions reports whether JSON text may have a member named uri, resourceUri or ui/resourceUri. It
// looks for strings that end like one of these, or have an escape that may stand for one of their
// letters. Quotation marks inside a string are escaped, so the content of a text is never taken for
// a member.
//
// Every result passes through here, whatever its size. Large results usually consist of
// long texts, with few quotation marks to look at; in places with many, the search compares
// eight bytes in one step.
func mentions(text []byte) bool {
	if bytes.Contains(text, []byte(`\u00`)) {
		return true
	}
	i := 0
	for few := len(text)/64 + 1; few > 0; few-- {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return false
		}
		if endsURI(text, i+n) {
			return true
		}
		i += n + 1
	}
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
		marks = '"' * ones
	)
	for ; i+8 <= len(text); i += 8 {
		x := binary.LittleEndian.Uint64(text[i:]) ^ marks
		for found := (x - ones) & ^x & highs; found != 0; found &= found - 1 {
			if endsURI(text, i+bits.TrailingZeros64(found)/8) {
				return true
			}
		}
	}
	for ; i < len(text); i++ {
		if text[i] == '"' && endsURI(text, i) {
			return true
		}
	}
	return false
}

// endsURI reports whether uri, in upper or lower case, ends right before index i.
func endsURI(text []byte, i int) bool {
	return i >= 3 && text[i-1]|0x20 == 'i' && text[i-2]|0x20 == 'r' && text[i-3]|0x20 == 'u'
}

// taskReply returns an upstream's reply about a task in the form for the client: under the id that
// the client used, and with public URIs.
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
		if i > 0 && inWord(text[i-1]) && inWord(word[0]) ||
			end < len(text) && inWord(text[end]) && inWord(word[len(word)-1]) {
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

// related records in _meta the task that a message belongs to (2025-11-25
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

package exchange

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// joined is the largest size in bytes of an answer that is copied together and written at once.
	// Larger results are written from where they are.
	joined = 32 << 10
	// sniffed is the size in bytes from which net/http does not determine the length itself.
	sniffed = 2 << 10
)

var contentJSON = []string{"application/json"}

// buffers hold answers that are written in one piece.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// message is a response in parts, so that a large result need not be copied.
type message [][]byte

func (m message) size() (n int) {
	for _, part := range m {
		n += len(part)
	}
	return n
}

func (m message) appendTo(dst []byte) []byte {
	for _, part := range m {
		dst = append(dst, part...)
	}
	return dst
}

// WriteJSON writes a complete answer.
func (e *Endpoint) WriteJSON(w http.ResponseWriter, status int, body []byte) {
	e.writeMessage(w, http.NewResponseController(w), status, message{body})
}

func (e *Endpoint) writeMessage(w http.ResponseWriter, rc *http.ResponseController, status int, m message) {
	if one, ok := w.(*Collected); ok { // of a batch, which is written as a whole
		one.Body = m.appendTo(one.Body)
		return
	}
	h := w.Header()
	h["Content-Type"] = contentJSON
	size := m.size()
	if size >= sniffed {
		h["Content-Length"] = []string{strconv.Itoa(size)}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	if size <= joined {
		buf := buffers.Get().(*[]byte)
		*buf = m.appendTo((*buf)[:0])
		_ = e.Writer.Write(w, rc, *buf) // on an error the client has gone, and no one reads more
		buffers.Put(buf)
		return
	}
	for _, part := range m {
		if e.Writer.Write(w, rc, part) != nil {
			return // likewise
		}
	}
}

// serverInfo is an Implementation object.
func serverInfo(s ServerInfo) mcp.Raw {
	info := mcp.Object("name", mcp.String(s.Name))
	if s.Title != "" {
		info = info.With("title", mcp.String(s.Title))
	}
	return info.With("version", mcp.String(s.Version))
}

// render returns the response for a reply with a result or a list.
func (x *Exchange) render(reply *mcp.Reply) (message, error) {
	switch {
	case reply == nil:
		return nil, ErrNoReply
	case reply.Ask != nil: // show has written it
		return message{x.resultHead(), reply.Result, closeOne}, nil
	case reply.List != nil:
		return x.renderList(reply.List), nil
	case !x.mayAnswer(reply):
		return nil, mcp.Errorf(failure.UpstreamBadAnswer,
			"the upstream answered with a task, which this client does not know")
	case !reply.Result.IsObject():
		return nil, mcp.Errorf(failure.UpstreamBadAnswer, "the answer of the upstream is no object")
	case x.rev.Stateful:
		result := x.rev.Result(x.Call.Method, mcp.Edited{Of: reply.Result, Outline: reply.Outline})
		return append(result.Parts(append(make(message, 0, 8), append(x.resultHead(), '{'))), closeOne), nil
	}
	return x.renderStateless(reply), nil
}

// mayAnswer reports whether the client understands a result. A task is only for clients that
// asked for it, or that declared in this request that they know tasks.
func (x *Exchange) mayAnswer(reply *mcp.Reply) bool {
	return !reply.Task || x.Call.Method == mcp.MethodToolsCall &&
		(x.Call.Task != nil || x.Call.Tasks == mcp.ExtensionTasks)
}

var closeOne = []byte("}")

// resultHead returns the beginning of a response, up to the result.
func (x *Exchange) resultHead() []byte {
	head := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":`...)
	return append(append(head, x.ID...), `,"result":`...)
}

// renderStateless adds the members that this revision requires to a result. They are put in
// front of the others, so that what is relayed is not copied; only members that contradict
// them are removed. A task has its own resultType, and its times are not hints for a cache.
func (x *Exchange) renderStateless(reply *mcp.Reply) message {
	result, want := reply.Result, `"complete"`
	if reply.Task {
		want = `"task"`
	}
	task := reply.Task || mcp.IsTaskMethod(x.Call.Method)
	var meta mcp.Raw
	var kind, ttl, scope hint
	others, asks := false, false
	reply.Outline.Members(result, func(name []byte, value mcp.Raw) bool {
		switch string(name) {
		case "_meta":
			meta = value
		case "resultType":
			kind.saw(string(value) == want)
		case "ttlMs":
			ttl.saw(task || IsDuration(value))
		case "cacheScope":
			// A cache must not share a result for one user, whatever its server says.
			scope.saw(string(value) == `"private"` || string(value) == `"public"` && x.Call.Caller.Issuer == "")
		case "inputRequests", "requestState":
			asks, others = asks || !task, others || task // nothing is asked by a result that is complete
		default:
			others = true
		}
		return true
	})
	var edits [6]mcp.Edit
	less := edits[:0]
	if asks {
		less = append(less, mcp.Edit{Name: "inputRequests"}, mcp.Edit{Name: "requestState"})
	}
	if meta != nil {
		less = append(less, mcp.Edit{Name: "_meta"})
	}
	for _, h := range []struct {
		hint
		name string
	}{{kind, "resultType"}, {ttl, "ttlMs"}, {scope, "cacheScope"}} {
		if h.hint == wrong {
			less = append(less, mcp.Edit{Name: h.name})
		}
	}
	info := x.e.metaInfo
	if meta.IsObject() {
		info = meta.Edit(mcp.Edit{Name: wire.MetaServerInfo, Value: x.e.Info})
	}
	head := appendMember(append(x.resultHead(), '{'), "_meta", info)
	if kind != good {
		head = append(append(head, `,"resultType":`...), want...)
	}
	if cacheable(x.Call.Method) {
		if ttl != good {
			head = append(head, `,"ttlMs":0`...)
		}
		if scope != good {
			head = append(head, `,"cacheScope":"private"`...)
		}
	}
	if others || kind == good || ttl == good || scope == good {
		head = append(head, ',')
	}
	left := mcp.Edited{Of: result, Outline: reply.Outline, Edits: less}
	return append(left.Parts(append(make(message, 0, 8), head)), closeOne)
}

// cacheable reports whether the result of a method that lists nothing says how long it is valid
// (2026-07-28 server/utilities/caching; skills extension; for directories, clients require it).
func cacheable(method string) bool {
	return method == mcp.MethodResourcesRead || method == mcp.MethodSkillsGet || method == mcp.MethodDirectoryRead
}

// hint is the state of a member that must occur once.
type hint uint8

const (
	absent hint = iota
	good
	wrong // its value is not allowed, or it occurs twice
)

func (h *hint) saw(ok bool) {
	if *h == absent && ok {
		*h = good
	} else {
		*h = wrong
	}
}

// IsDuration reports whether the value is an integer that is not negative.
func IsDuration(value mcp.Raw) bool {
	return len(value) > 0 && !bytes.ContainsFunc(value, func(r rune) bool { return r < '0' || r > '9' })
}

func appendMember(dst []byte, name string, value mcp.Raw) []byte {
	dst = append(mcp.AppendString(dst, name), ':')
	return append(dst, value...)
}

// renderList writes a list. Its items are rendered once for each revision. They come last:
// after a body that is not copied, net/http writes to the connection once more for a tail.
func (x *Exchange) renderList(list *mcp.List) message {
	rev, method := x.rev, x.Call.Method
	head := append(x.resultHead(), '{')
	if list.Next != nil {
		head = append(mcp.AppendString(append(head, `"nextCursor":`...), *list.Next), ',')
	}
	if !rev.Stateful {
		head = append(head, `"resultType":"complete","ttlMs":`...)
		left := min(max(0, time.Until(list.Expires).Milliseconds()), math.MaxInt32) // 0 for the zero time
		head = strconv.AppendInt(head, left, 10)
		scope := `,"cacheScope":"public",`
		if list.Private {
			scope = `,"cacheScope":"private",`
		}
		head = append(appendMember(append(head, scope...), "_meta", x.e.metaInfo), ',')
	}
	items := list.Render(rev.Name, func(l *mcp.List) []byte { return renderItems(rev, method, l) })
	return message{head, items}
}

// renderItems writes the member that holds the items of a list, and the end of the response.
func renderItems(rev *wire.Revision, method string, list *mcp.List) []byte {
	size := 32
	for _, item := range list.Items {
		size += len(item.Raw) + 1
	}
	out := append(mcp.AppendString(make([]byte, 0, size), mcp.ListMember(method)), ':', '[')
	for i, item := range list.Items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, rev.Item(method, item.Raw)...)
	}
	return append(out, "]}}"...)
}

// toModel returns the text of an error that becomes a tool's result, "" for others: what a model
// can act on, and what a stateful client would have to declare, since it does not know the error
// that stateless clients get.
func (x *Exchange) toModel(err error) string {
	e, ok := errors.AsType[*mcp.Error](err)
	switch {
	case !ok || x.Call.Method != mcp.MethodToolsCall:
		return ""
	case e.AsResult:
		return e.Message
	case e.Code != mcp.CodeMissingCapability || !x.rev.Stateful:
		return ""
	}
	var names []string
	e.Data.At("requiredCapabilities").Each(func(name string, _ mcp.Raw) bool {
		names = append(names, name)
		return len(names) < live.MaxQuestions
	})
	return "This tool needs what this client does not offer to servers: " + strings.Join(names, ", ")
}

// Collected is the answer to one message of a batch. Its status does not count: in a batch the
// error says everything.
type Collected struct {
	header http.Header
	Body   []byte
}

// Header implements http.ResponseWriter.
func (c *Collected) Header() http.Header {
	if c.header == nil {
		c.header = make(http.Header)
	}
	return c.header
}

// Write implements http.ResponseWriter.
func (c *Collected) Write(b []byte) (int, error) {
	c.Body = append(c.Body, b...)
	return len(b), nil
}

// WriteHeader implements http.ResponseWriter.
func (c *Collected) WriteHeader(int) {}

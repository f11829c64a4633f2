package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Call is one request, or a standing GET, while a Server works at it.
type Call struct {
	Received

	server *Server
	key    string // of session and id
	ctx    context.Context
	cancel context.CancelFunc
	pipe   *pipe // nil over Streamable HTTP

	mu      sync.Mutex // guards the fields below: one writer at a time
	w       http.ResponseWriter
	started bool
	over    bool // the handler returned: w is not ours any more
}

// Done is closed when the call is over for its client: cancelled by notification,
// connection gone, or the server closes.
func (c *Call) Done() <-chan struct{} { return c.ctx.Done() }

// Context ends with Done.
func (c *Call) Context() context.Context { return c.ctx }

// Result answers. A stateless server's result gets the resultType that it lacks.
func (c *Call) Result(result string) {
	if !c.server.revision.Stateful {
		merged, err := merge(result, map[string]string{"resultType": `"complete"`})
		if err != nil {
			panic(err) // the test's own JSON
		}
		result = merged
	}
	c.finish(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, compact(result)))
}

// Text answers a tool call with one text.
func (c *Call) Text(text string) {
	quoted, _ := json.Marshal(text) // a string always marshals
	c.Result(fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
}

// Error answers with a JSON-RPC error.
func (c *Call) Error(code int, message string) {
	quoted, _ := json.Marshal(message) // a string always marshals
	c.finish(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, c.ID, code, quoted))
}

// Notify sends a notification on the call's stream.
func (c *Call) Notify(method, params string) {
	c.event(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, compact(params)))
}

// Progress reports progress with the token that the client gave; it reports false,
// and sends nothing, when there was none.
func (c *Call) Progress(done int) bool {
	var token json.RawMessage
	if !c.Param("_meta|progressToken", &token) {
		return false
	}
	c.Notify("notifications/progress", fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, done))
	return true
}

// Ask makes a request of the client on the call's stream and waits for its answer,
// as stateful servers do.
func (c *Call) Ask(method, params string) (Message, error) { return c.Asking(method, params)() }

// Asking is Ask in two: it returns when the request was sent, and answer waits.
func (c *Call) Asking(method, params string) (answer func() (Message, error)) {
	id := c.server.mint()
	answers := make(chan Message, 1)
	c.server.mu.Lock()
	c.server.waiting[id] = answers
	c.server.mu.Unlock()
	c.event(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, compact(params)))
	return func() (Message, error) {
		select {
		case m := <-answers:
			return m, nil
		case <-c.Done():
			c.server.mu.Lock()
			delete(c.server.waiting, id)
			c.server.mu.Unlock()
			return Message{}, fmt.Errorf("%s: the call is over", method)
		}
	}
}

// Hang waits until the call is over for its client.
func (c *Call) Hang() { <-c.Done() }

// Die breaks the connection, after what was sent already.
func (c *Call) Die() {
	if c.pipe != nil {
		c.pipe.cancel()
		return
	}
	panic(http.ErrAbortHandler) // net/http's own way to do it
}

// Status answers with an HTTP status and a body of any kind. Only Streamable HTTP has
// one.
func (c *Call) Status(status int, contentType, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	c.write(body)
}

// Garbage sends text where a message should stand.
func (c *Call) Garbage(text string) { c.finish(text) }

// stand is the standing stream of a session: it lasts until somebody ends it.
func (c *Call) stand() { c.keep(c.open) }

// keep begins a standing stream and keeps it until somebody ends it. Who sees that it has
// begun does not miss what is pushed from then on.
func (c *Call) keep(begin func()) {
	c.join(begin)
	c.stay()
}

// join has the call be told what is pushed, and stay waits for its end.
func (c *Call) join(begin func()) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	begin()
	c.server.standing[c] = true
	c.server.mu.Wake()
}

func (c *Call) stay() {
	<-c.Done()
	c.server.mu.Lock()
	delete(c.server.standing, c)
	c.server.mu.Unlock()
}

func (c *Call) finish(message string) {
	if c.pipe != nil {
		c.pipe.say(message)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		c.write("data: " + message + "\n\n")
		return
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.write(message)
	c.over = true // a question that comes too late is not asked any more
}

func (c *Call) event(message string) {
	if c.pipe != nil {
		c.pipe.say(message)
		return
	}
	c.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write("data: " + message + "\n\n")
}

func (c *Call) open() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.over {
		return
	}
	c.started = true
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.WriteHeader(http.StatusOK)
	c.write("")
}

// write is called with mu held. A client that has gone is no matter here: Done
// says so.
func (c *Call) write(text string) {
	if c.over {
		return
	}
	_, err := c.w.Write([]byte(text))
	if err = errors.Join(err, http.NewResponseController(c.w).Flush()); err != nil {
		c.cancel()
	}
}

// usual is what a server of the revision does without a script.
func (s *Server) usual(c *Call) {
	switch c.Method {
	case "initialize":
		if !s.revision.Stateful {
			c.unknown(http.StatusNotFound, "application/json",
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, c.ID))
			return
		}
		session := c.Session
		if c.pipe == nil {
			session = "session-" + s.mint()
			c.w.Header().Set("Mcp-Session-Id", session)
		}
		s.mu.Lock()
		s.sessions[session] = true
		if !s.discards {
			s.hellos[session] = c.Message
		}
		s.mu.Unlock()
		c.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"scripted","version":"1"}}`,
			s.revision.Name, s.offered()))
	case "server/discover":
		if s.revision.Stateful {
			c.unknown(http.StatusBadRequest, "text/plain", "session required")
			return
		}
		c.Result(fmt.Sprintf(`{"supportedVersions":[%q],"capabilities":%s,"ttlMs":60000,"cacheScope":"public"}`,
			s.revision.Name, s.offered()))
	case "tools/list":
		c.Result(`{"tools":[]}`)
	case "prompts/list":
		c.Result(`{"prompts":[]}`)
	case "resources/list":
		c.Result(`{"resources":[]}`)
	case "resources/templates/list":
		c.Result(`{"resourceTemplates":[]}`)
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		c.Result(`{}`)
	case "subscriptions/listen":
		var wanted json.RawMessage
		if !c.Param("notifications", &wanted) {
			wanted = json.RawMessage(`{}`)
		}
		c.keep(func() {
			c.Notify("notifications/subscriptions/acknowledged",
				fmt.Sprintf(`{"_meta":{%q:%s},"notifications":%s}`, wire.MetaSubscriptionID, c.ID, wanted))
		})
	default:
		c.Error(-32601, "Method not found: "+c.Method)
	}
}

// unknown answers the handshake of the other era, over HTTP by a status.
func (c *Call) unknown(status int, contentType, body string) {
	if c.pipe != nil {
		c.Error(-32601, "Method not found: "+c.Method)
		return
	}
	c.Status(status, contentType, body)
}

// scriptedCaps are everything that a script may play.
const scriptedCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`

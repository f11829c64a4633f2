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

// Call is a request, or a GET stream, that a Server is working on.
type Call struct {
	Received

	server *Server
	key    string // session and request id
	ctx    context.Context
	cancel context.CancelFunc
	pipe   *pipe // nil over Streamable HTTP

	mu      sync.Mutex // guards the fields below: one writer at a time
	w       http.ResponseWriter
	started bool
	over    bool // the handler has returned: w must not be used any more
}

// Done is closed when the call has ended for its client: it was cancelled by notification,
// the connection is gone, or the server closes.
func (c *Call) Done() <-chan struct{} { return c.ctx.Done() }

// Context returns a context that ends with Done.
func (c *Call) Context() context.Context { return c.ctx }

// Result sends a result. For a stateless server it adds a missing resultType.
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

// Text answers a tool call with one text block.
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

// Progress reports progress with the client's token. Without a token it sends nothing and
// reports false.
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

// Asking is Ask in two steps: it returns when the request was sent, and answer waits for
// the answer.
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

// Welcome answers initialize as a server without a script does. more is put behind the
// members of the result.
func (c *Call) Welcome(more string) {
	s, session := c.server, c.Session
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
	c.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"scripted","version":"1"}%s}`,
		s.revision.Name, s.offered(), more))
}

// Piped reports whether everything that the server sends comes on one channel: over
// HTTP+SSE and stdio.
func (c *Call) Piped() bool { return c.pipe != nil }

// Hang waits until the call has ended for its client.
func (c *Call) Hang() { <-c.Done() }

// Die breaks the connection after what was already sent.
func (c *Call) Die() {
	if c.pipe != nil {
		c.pipe.cancel()
		return
	}
	panic(http.ErrAbortHandler) // how net/http breaks a connection
}

// Status answers with an HTTP status and any body, over Streamable HTTP only.
func (c *Call) Status(status int, contentType, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Header().Set("Content-Type", contentType)
	c.w.WriteHeader(status)
	c.write(body)
}

// Garbage sends a text instead of a message.
func (c *Call) Garbage(text string) { c.finish(text) }

// stand keeps the GET stream of a session open until the client or the server ends it.
func (c *Call) stand() { c.keep(c.open) }

// keep begins a GET stream and keeps it open until the client or the server ends it. Once the
// client sees its beginning, it misses no notification.
func (c *Call) keep(begin func()) {
	c.join(begin)
	c.stay()
}

// join registers the call for notifications, and stay waits for its end.
func (c *Call) join(begin func()) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	begin()
	c.server.streams[c] = true
	c.server.mu.Wake()
}

func (c *Call) stay() {
	<-c.Done()
	c.server.mu.Lock()
	delete(c.server.streams, c)
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
	c.over = true // a late question is not asked
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

// write writes to the client. The caller holds mu. Write errors do not matter: Done reports
// that the client is gone.
func (c *Call) write(text string) {
	if c.over {
		return
	}
	_, err := c.w.Write([]byte(text))
	if err = errors.Join(err, http.NewResponseController(c.w).Flush()); err != nil {
		c.cancel()
	}
}

// usual is the default behaviour of a server of the revision.
func (s *Server) usual(c *Call) {
	switch c.Method {
	case "initialize":
		if !s.revision.Stateful {
			c.unknown(http.StatusNotFound, "application/json",
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, c.ID))
			return
		}
		c.Welcome("")
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

// unknown refuses the handshake of the other era, over HTTP by a status.
func (c *Call) unknown(status int, contentType, body string) {
	if c.pipe != nil {
		c.Error(-32601, "Method not found: "+c.Method)
		return
	}
	c.Status(status, contentType, body)
}

// scriptedCaps are all capabilities that a script may use.
const scriptedCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
	`"resources":{"subscribe":true,"listChanged":true},"completions":{},"logging":{}}`

package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Server is a scripted MCP server of one era. Its tools are
//
//	echo     returns its argument text
//	region   likewise; in the stateless era its argument region is mirrored into a header
//	steps    reports three steps of progress
//	hang     answers nothing until it is cancelled
//	ask      asks the user for a colour and returns it
//	big      returns the given number of bytes
//	garbage  sends data that is not a message: over streamable HTTP instead of the result, otherwise before it
//	die      breaks the connection, over stdio by ending the process
//	seen     returns what the server saw so far
//
// In addition, bad has an impossible annotation; stateless clients must drop it.
type Server struct {
	// Stateful says which era the server belongs to.
	Stateful bool

	mu       sync.Mutex // guards the fields below
	seen     []string
	sessions map[string]*serverSession
	nextID   int
}

// serverSession is the state of a session of a stateful server; over stdio there is one
// session.
type serverSession struct {
	id      string
	caps    map[string]any
	waiting map[string]chan message
	running map[string]context.CancelFunc
}

type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

type params struct {
	Name            string                     `json:"name"`
	URI             string                     `json:"uri"`
	ProtocolVersion string                     `json:"protocolVersion"`
	Capabilities    map[string]any             `json:"capabilities"`
	RequestID       json.RawMessage            `json:"requestId"`
	Arguments       map[string]any             `json:"arguments"`
	Meta            map[string]json.RawMessage `json:"_meta"`
	InputResponses  map[string]json.RawMessage `json:"inputResponses"`
	RequestState    string                     `json:"requestState"`
	Notifications   map[string]any             `json:"notifications"`
}

// peer is what a behaviour may do to its caller.
type peer interface {
	send(m message) // on the stream of the request
	garbage() bool  // true: there will be no answer
	die()           // does not return
	session() *serverSession
}

// inSession is a peer's session.
type inSession struct{ of *serverSession }

func (p inSession) session() *serverSession { return p.of }

func newSession(id string) *serverSession {
	return &serverSession{id: id, waiting: make(map[string]chan message), running: make(map[string]context.CancelFunc)}
}

func (s *Server) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, fmt.Sprintf(format, args...))
}

// Seen returns what the server saw, such as "tools/call echo".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// answer answers a request; ok is false if there is nothing to send.
func (s *Server) answer(ctx context.Context, p peer, m message) (reply message, ok bool) {
	var in params
	_ = json.Unmarshal(m.Params, &in) // what cannot be read is missing
	s.note("%s", strings.TrimSpace(m.Method+" "+in.Name))
	reply = message{JSONRPC: "2.0", ID: m.ID}
	if !s.Stateful {
		if reply.Error = s.checkMeta(in); reply.Error != nil {
			return reply, true
		}
	}
	result, err, ok := s.result(ctx, p, m, in)
	if err != nil || !ok {
		reply.Error = err
		return reply, ok
	}
	if !s.Stateful {
		if _, has := result["resultType"]; !has {
			result["resultType"] = "complete"
		}
	}
	reply.Result = result
	return reply, ok
}

func (s *Server) checkMeta(in params) *rpcError {
	var version string
	_ = json.Unmarshal(in.Meta["io.modelcontextprotocol/protocolVersion"], &version)
	if version != wire.Stateless().Name {
		return &rpcError{Code: -32022, Message: "Unsupported protocol version",
			Data: map[string]any{"supported": []string{wire.Stateless().Name}, "requested": version}}
	}
	if in.Meta["io.modelcontextprotocol/clientCapabilities"] == nil {
		return &rpcError{Code: -32602, Message: "clientCapabilities missing"}
	}
	return nil
}

func (s *Server) result(ctx context.Context, p peer, m message, in params) (map[string]any, *rpcError, bool) {
	caps := map[string]any{"tools": map[string]any{"listChanged": true}, "logging": map[string]any{},
		"resources": map[string]any{"subscribe": true}}
	info := map[string]any{"name": "scripted", "version": "1"}
	switch {
	case m.Method == "initialize" && s.Stateful:
		p.session().caps = in.Capabilities
		return map[string]any{"protocolVersion": wire.NewestStateful().Name, "capabilities": caps, "serverInfo": info, "instructions": "be kind"}, nil, true
	case m.Method == "server/discover" && !s.Stateful:
		return map[string]any{"supportedVersions": []string{wire.Stateless().Name}, "capabilities": caps, "instructions": "be kind",
			"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": info}}, nil, true
	case m.Method == "tools/list":
		return map[string]any{"tools": s.tools()}, nil, true
	case m.Method == "tools/call":
		return s.call(ctx, p, in)
	case (m.Method == "logging/setLevel" || strings.HasSuffix(m.Method, "subscribe")) && s.Stateful:
		return map[string]any{}, nil, true
	}
	return nil, &rpcError{Code: -32601, Message: "Method not found"}, true
}

func (s *Server) tools() []any {
	var out []any
	for _, name := range []string{"echo", "region", "steps", "hang", "ask", "big", "garbage", "die", "seen"} {
		schema := map[string]any{"type": "object"}
		if name == "region" {
			schema["properties"] = map[string]any{"region": map[string]any{"type": "string", "x-mcp-header": "Region"}}
		}
		out = append(out, map[string]any{"name": name, "inputSchema": schema})
	}
	return append(out, map[string]any{"name": "bad", "inputSchema": map[string]any{"type": "object",
		"properties": map[string]any{"x": map[string]any{"type": "number", "x-mcp-header": "X"}}}})
}

func text(s string) map[string]any {
	return map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}
}

func (s *Server) call(ctx context.Context, p peer, in params) (map[string]any, *rpcError, bool) {
	switch in.Name {
	case "echo":
		return text(fmt.Sprint(in.Arguments["text"])), nil, true
	case "region":
		return text(fmt.Sprint(in.Arguments["region"])), nil, true
	case "steps":
		for i := 1; i <= 3; i++ {
			p.send(note("notifications/progress", map[string]any{"progressToken": in.Meta["progressToken"], "progress": i, "total": 3}))
		}
		return text("done"), nil, true
	case "hang":
		<-ctx.Done()
		s.note("hang ended")
		return nil, nil, false
	case "ask":
		return s.ask(ctx, p, in)
	case "big":
		n, _ := in.Arguments["bytes"].(float64)
		return text(strings.Repeat("x", int(n))), nil, true
	case "garbage":
		if p.garbage() {
			return nil, nil, false
		}
		return text("after garbage"), nil, true
	case "die":
		p.die()
	case "seen":
		return text(strings.Join(s.Seen(), "\n")), nil, true
	}
	return nil, &rpcError{Code: -32602, Message: "Unknown tool: " + in.Name}, true
}

func note(method string, params any) message {
	return message{JSONRPC: "2.0", Method: method, Params: encode(params)}
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // what the server says is always JSON
	}
	return raw
}

var question = map[string]any{"mode": "form", "message": "Which colour?", "requestedSchema": map[string]any{
	"type": "object", "properties": map[string]any{"colour": map[string]any{"type": "string"}}}}

// ask asks the user in the way of the era.
func (s *Server) ask(ctx context.Context, p peer, in params) (map[string]any, *rpcError, bool) {
	type answer struct {
		Action  string         `json:"action"`
		Content map[string]any `json:"content"`
	}
	say := func(raw []byte) (map[string]any, *rpcError, bool) {
		var a answer
		_ = json.Unmarshal(raw, &a) // unreadable data is not an answer
		return text(fmt.Sprint(a.Action, " ", a.Content["colour"])), nil, true
	}
	if !s.Stateful {
		if raw, ok := in.InputResponses["colour?"]; ok && in.RequestState == "état 1" {
			return say(raw)
		}
		return map[string]any{"resultType": "input_required", "requestState": "état 1", "inputRequests": map[string]any{
			"colour?": map[string]any{"method": "elicitation/create", "params": question}}}, nil, true
	}
	session := p.session()
	if session.caps["elicitation"] == nil {
		return map[string]any{"isError": true, "content": []any{}}, nil, true
	}
	m := note("elicitation/create", question)
	s.mu.Lock()
	s.nextID++
	m.ID = json.RawMessage(strconv.Quote("q" + strconv.Itoa(s.nextID)))
	wait := make(chan message, 1)
	session.waiting[string(m.ID)] = wait
	s.mu.Unlock()
	p.send(m)
	select {
	case got := <-wait:
		return say(encode(got.Result))
	case <-ctx.Done():
		s.note("ask ended")
		return nil, nil, false
	}
}

// take handles a notification or an answer.
func (s *Server) take(session *serverSession, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Method == "" {
		if wait := session.waiting[string(m.ID)]; wait != nil {
			delete(session.waiting, string(m.ID))
			wait <- m
		}
		return
	}
	s.seen = append(s.seen, m.Method)
	if m.Method == "notifications/cancelled" {
		var in params
		_ = json.Unmarshal(m.Params, &in) // an unreadable one cancels nothing
		if cancel := session.running[string(in.RequestID)]; cancel != nil {
			cancel()
		}
	}
}

// serve answers a request on a connection that takes others meanwhile.
func (s *Server) serve(ctx context.Context, running *sync.WaitGroup, p peer, m message) {
	ctx, cancel := context.WithCancel(ctx)
	s.begin(p.session(), m, cancel)
	running.Go(func() {
		defer cancel()
		defer s.end(p.session(), m)
		if reply, ok := s.answer(ctx, p, m); ok {
			p.send(reply)
		}
	})
}

func (s *Server) begin(session *serverSession, m message, cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session.running[string(m.ID)] = cancel
}

func (s *Server) end(session *serverSession, m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(session.running, string(m.ID))
}

package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// ServeHTTP serves streamable HTTP in the server's era.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	session := newSession("")
	if s.Stateful {
		if session = s.sessionOf(w, r); session == nil {
			return
		}
	}
	switch r.Method {
	case http.MethodDelete:
		s.note("DELETE")
		s.mu.Lock()
		delete(s.sessions, session.id)
		for _, cancel := range session.running {
			cancel()
		}
		s.mu.Unlock()
		return
	case http.MethodPost:
	default:
		s.note("%s", r.Method)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.ID == nil || m.Method == "" {
		s.take(session, m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if !s.Stateful {
		if e := checkHeaders(r, m); e != nil {
			writeJSON(w, http.StatusBadRequest, message{JSONRPC: "2.0", ID: m.ID, Error: e})
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	if s.Stateful { // the end of the request does not cancel it
		ctx, cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	}
	defer cancel()
	s.begin(session, m, cancel)
	defer s.end(session, m)
	p := &httpPeer{w: w, inSession: inSession{session}}
	reply, ok := s.answer(ctx, p, m)
	if ok {
		p.answer(reply)
	}
}

// sessionOf finds the session, or makes one for initialize.
func (s *Server) sessionOf(w http.ResponseWriter, r *http.Request) *serverSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" {
		s.nextID++
		id = fmt.Sprint("session-", s.nextID)
		if s.sessions == nil {
			s.sessions = make(map[string]*serverSession)
		}
		s.sessions[id] = newSession(id)
		w.Header().Set("Mcp-Session-Id", id)
	}
	session := s.sessions[id]
	if session == nil {
		w.WriteHeader(http.StatusNotFound)
	}
	return session
}

// Forget makes a stateful server lose all its sessions.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = nil
}

// checkHeaders checks the headers that the stateless era requires.
func checkHeaders(r *http.Request, m message) *rpcError {
	var in params
	_ = json.Unmarshal(m.Params, &in) // what cannot be read is missing
	want := map[string]string{"Mcp-Method": m.Method, "Mcp-Name": in.Name, wire.HeaderVersion: wire.Stateless().Name}
	if region, ok := in.Arguments["region"].(string); ok {
		want["Mcp-Param-Region"] = region
	}
	for name, value := range want {
		if r.Header.Get(name) != value {
			return &rpcError{Code: -32020, Message: name + " does not match the body"}
		}
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, m message) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(m) // a client that left needs no answer
}

// httpPeer answers with JSON, or with an event stream once it has sent another message.
type httpPeer struct {
	w http.ResponseWriter
	inSession

	mu        sync.Mutex // guards streaming
	streaming bool
}

func (p *httpPeer) send(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.streaming {
		p.streaming = true
		p.w.Header().Set("Content-Type", "text/event-stream")
	}
	fmt.Fprintf(p.w, "event: message\ndata: %s\n\n", encode(m))
	_ = http.NewResponseController(p.w).Flush() // every writer here can
}

func (p *httpPeer) answer(m message) {
	if p.streaming {
		p.send(m)
		return
	}
	writeJSON(p.w, http.StatusOK, m)
}

func (p *httpPeer) garbage() bool {
	p.w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(p.w, "<html>please log in</html>") // a client that left needs no answer
	return true
}

func (p *httpPeer) die() { panic(http.ErrAbortHandler) }

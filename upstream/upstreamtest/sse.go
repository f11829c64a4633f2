package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"sync"
)

// SSE returns a handler that serves HTTP+SSE, of the first revision. The server must be
// stateful.
func (s *Server) SSE() http.Handler {
	return &sseServer{s: s, streams: make(map[string]*ssePeer)}
}

type sseServer struct {
	s *Server

	mu      sync.Mutex // guards the fields below
	streams map[string]*ssePeer
	opened  int
}

// ServeHTTP opens a stream, or takes a message.
func (h *sseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		h.stream(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/messages":
		h.message(w, r)
	default:
		h.s.note("%s", r.Method)
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (h *sseServer) stream(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	h.mu.Lock()
	h.opened++
	id := fmt.Sprint("stream-", h.opened)
	p := &ssePeer{w: w, ctx: ctx, cancel: cancel, inSession: inSession{newSession(id)}}
	h.streams[id] = p
	h.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	p.write("event: endpoint\ndata: /messages?session=" + id + "\n\n")
	<-ctx.Done()
	h.mu.Lock()
	delete(h.streams, id)
	h.mu.Unlock()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.running.Wait()
	h.s.note("stream ended")
}

func (h *sseServer) message(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	p := h.streams[r.URL.Query().Get("session")]
	h.mu.Unlock()
	var m message
	switch {
	case p == nil:
		http.Error(w, "there is no such session", http.StatusNotFound)
		return
	case json.NewDecoder(r.Body).Decode(&m) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if m.ID == nil || m.Method == "" {
		h.s.take(p.of, m)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	h.s.serve(p.ctx, &p.running, p, m)
}

// ssePeer answers on the one stream of its client.
type ssePeer struct {
	ctx    context.Context
	cancel context.CancelFunc
	inSession
	running sync.WaitGroup // grows only while not over

	mu   sync.Mutex // guards the fields below
	w    http.ResponseWriter
	over bool
}

func (p *ssePeer) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		_, _ = p.w.Write([]byte(text)) // a client that left needs no answer
		_ = http.NewResponseController(p.w).Flush()
	}
}

func (p *ssePeer) send(m message) {
	p.write("event: message\ndata: " + string(encode(m)) + "\n\n")
}

func (p *ssePeer) garbage() bool {
	p.write(": comment\n\nevent: chatter\ndata: {}\n\nevent: message\ndata: welcome\n\ndata: {\"half\":\n\nnonsense\n\n")
	return false
}

func (p *ssePeer) die() {
	p.cancel()
	runtime.Goexit()
}

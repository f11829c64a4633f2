package gateway

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// place is a path for clients. It puts authentication where it belongs (front.Behind).
type place struct {
	path   string
	behind func(authenticate func(http.Handler) http.Handler) http.Handler
}

// oldPlaces are the paths of HTTP+SSE, if it is served.
func (g *Gateway) oldPlaces() []place {
	stream, messages := g.front.SSEPaths()
	if stream == "" {
		return nil
	}
	return []place{{stream, g.front.SSEBehind}, {messages, g.front.MessagesBehind}}
}

// routes is everything that is served: the endpoint and other places at exactly their
// paths, with every HTTP method, what tells clients where to get a token for it, and
// nothing else. Paths are not cleaned: another spelling of the path is another path.
func routes(path string, behind func(authenticate func(http.Handler) http.Handler) http.Handler, who *auth.Auth, log *slog.Logger, others ...place) http.Handler {
	endpoint := behind(who.Require)
	places := map[string]http.Handler{path: endpoint}
	for _, p := range others {
		places[p.path] = p.behind(who.Require)
	}
	nothing := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is nothing here: the MCP endpoint is "+path, http.StatusNotFound)
	}
	r := chi.NewRouter()
	r.Use(recoverer(log))
	r.NotFound(nothing)
	// Asked for methods that chi does not know, whatever the path.
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		if there := places[req.URL.EscapedPath()]; there != nil {
			there.ServeHTTP(w, req)
			return
		}
		nothing(w, req)
	})
	for path, there := range places {
		r.Handle(path, there)
	}
	for _, metadata := range who.MetadataPaths() {
		r.Handle(metadata, who.Metadata())
	}
	if strings.Contains(path, "%") {
		return r
	}
	// Nearly every request is for the endpoint, and needs no router to find it.
	direct := recoverer(log)(endpoint)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == path && req.URL.RawPath == "" {
			direct.ServeHTTP(w, req)
			return
		}
		r.ServeHTTP(w, req)
	})
}

// recoverer answers a request whose handler panicked, where that is still possible,
// and keeps the connection. The stack goes to the log only.
func recoverer(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t := &tracker{ResponseWriter: w}
			defer func() {
				cause := recover()
				if cause == nil {
					return
				}
				if cause == http.ErrAbortHandler { // meant: ends the connection
					panic(cause)
				}
				log.ErrorContext(r.Context(), "panic in a handler", "error", fmt.Sprint(cause), "stack", string(debug.Stack()))
				if t.began {
					panic(http.ErrAbortHandler) // half an answer must not look whole
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusInternalServerError)
				w.Write(wire.AppendError(nil, nil, mcp.Errorf(mcp.CodeInternal, "internal error")))
			}()
			next.ServeHTTP(t, r)
		})
	}
}

// tracker remembers whether an answer began.
type tracker struct {
	http.ResponseWriter
	began bool
}

// WriteHeader passes the status on.
func (t *tracker) WriteHeader(status int) {
	t.began = true
	t.ResponseWriter.WriteHeader(status)
}

// Write passes the bytes on.
func (t *tracker) Write(b []byte) (int, error) {
	t.began = true
	return t.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

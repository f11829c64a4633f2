package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest/answers"
)

// The server's endpoints.
const (
	pathStateful  = "/stateful"
	pathStateless = "/stateless"
	pathTools     = "/tools/"  // followed by the number of a list
	pathMerged    = "/merged"  // everything that the gateway lists, on pages as long as its own
	pathCounts    = "/counted" // not MCP: the requests that reached the server
)

// Sizes of what the server offers.
const (
	smallBytes    = 100
	largeBytes    = 1 << 20
	documentBytes = 64 << 10
	lists         = 10
	perList       = 50
	perPage       = 2000 // as in gateway/catalog, which a run checks
	events        = 20
)

// server is a minimal MCP server. It does not check what a client sends: the gateway's
// tests do.
type server struct {
	results      map[string]mcp.Raw // by tool
	lists        int
	classes      bool     // some tools are for clients that declare something
	made         sync.Map // the pages of the lists as JSON, by path and what was declared
	calls, other atomic.Int64
}

// counts are the requests that reached the server so far.
type counts struct {
	Calls int64 `json:"calls"` // tools/call
	Other int64 `json:"other"` // any other request or notification
}

// callTools returns the tools of the two endpoints for calls.
func callTools() (tools []mcp.Raw) {
	for _, name := range slices.Sorted(maps.Keys(results())) {
		tools = append(tools, tool(name))
	}
	return append(tools, tool("events"))
}

// results returns what calls are answered with, by tool: a small text, and shapes of what servers return.
func results() map[string]mcp.Raw {
	all := map[string]mcp.Raw{"small": mcp.Object("content", answers.Text(answers.Words(smallBytes)))}
	for _, of := range []struct {
		size, shapes string
		bytes        int
	}{
		{"-4KiB", "json", 4 << 10},
		{"-64KiB", "json script structured resource image", documentBytes},
		{"-1MiB", "words json", largeBytes},
	} {
		for _, shape := range answers.Shapes(of.bytes) {
			if slices.Contains(strings.Fields(of.shapes), shape.Name) {
				all[shape.Name+of.size] = shape.Result
			}
		}
	}
	return all
}

// document returns a text of about this size that is itself JSON.
func document(size int) mcp.Raw { return mcp.String(answers.Document(size)) }

// newServer makes a server with so many lists. With classes, they differ between clients.
func newServer(lists int, classes bool) *server {
	return &server{lists: lists, classes: classes, results: results()}
}

// list returns the result of a list method: a page of the list of an endpoint.
func (s *server) list(path string, params mcp.Raw) mcp.Raw {
	pages, at := s.pages(path, params), 0
	if cursor, ok := params.Member("cursor"); ok {
		at, _ = strconv.Atoi(cursor.Text())
	}
	if at < 0 || at >= len(pages) {
		return mcp.Object("tools", mcp.Raw("[]"))
	}
	if at == len(pages)-1 {
		return mcp.Object("tools", pages[at])
	}
	return mcp.Object("tools", pages[at], "nextCursor", mcp.String(strconv.Itoa(at+1)))
}

// pages returns all pages of the list of an endpoint for a request.
func (s *server) pages(path string, params mcp.Raw) []mcp.Raw {
	caps := mcp.Raw(nil) // for everything
	if s.classes {
		meta, _ := params.Member("_meta")
		if caps, _ = meta.Member(wire.MetaClientCaps); caps == nil {
			caps = mcp.Raw("{}")
		}
	}
	key := path + " " + string(caps)
	if made, ok := s.made.Load(key); ok {
		return made.([]mcp.Raw)
	}
	var tools []mcp.Raw
	switch path {
	case pathStateful, pathStateless:
		tools = callTools()
	case pathMerged:
		tools = mergedTools(s.lists, caps)
	default:
		tools = listTools("", caps)
	}
	var made []mcp.Raw
	for page := range slices.Chunk(tools, perPage) {
		made = append(made, join(page))
	}
	s.made.Store(key, made)
	return made
}

// mergedTools returns all tools with their names in the gateway.
func mergedTools(lists int, caps mcp.Raw) []mcp.Raw {
	var all []mcp.Raw
	for _, upstream := range []string{upstreamStateful, upstreamStateless} {
		for _, t := range callTools() {
			name, _ := t.Member("name")
			all = append(all, t.With("name", mcp.String(publicName(upstream, name.Text()))))
		}
	}
	for i := range lists {
		all = append(all, listTools(publicName(upstreamList(i), ""), caps)...)
	}
	return all
}

// listTools returns a list. Without caps it has all tools, otherwise those that a client sees that
// declares them.
func listTools(prefix string, caps mcp.Raw) (tools []mcp.Raw) {
	for i := range perList {
		if at := i - (perList - len(special)); caps != nil && at >= 0 {
			if _, declared := caps.Member(special[at]); !declared {
				continue
			}
		}
		tools = append(tools, tool(fmt.Sprintf("%stool_%02d", prefix, i)))
	}
	return tools
}

// tool returns a definition of typical size, some 650 bytes.
func tool(name string) mcp.Raw {
	property := func(kind string) mcp.Raw {
		return mcp.Object("type", mcp.String(kind), "description", mcp.String(strings.Repeat("what it is for ", 5)))
	}
	return mcp.Object(
		"name", mcp.String(name),
		"description", mcp.String(strings.Repeat("It does one thing well. ", 8)),
		"inputSchema", mcp.Object("type", mcp.String("object"), "properties", mcp.Object(
			"query", property("string"), "limit", property("integer"), "deep", property("boolean"),
		)),
	)
}

func join(items []mcp.Raw) []byte {
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == pathCounts:
		_ = json.NewEncoder(w).Encode(counts{s.calls.Load(), s.other.Load()}) // the reader is gone
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default: // no stream to listen to
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	body, err := wire.ReadAll(r.Body, r.ContentLength, wire.DefaultMaxRequest)
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	m, err := wire.Scan(body)
	if err != nil {
		http.Error(w, "message", http.StatusBadRequest)
		return
	}
	if m.Method == mcp.MethodToolsCall {
		s.calls.Add(1)
	} else {
		s.other.Add(1)
	}
	stateless := r.URL.Path != pathStateful
	switch {
	case m.Kind != wire.Request:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == mcp.MethodToolsCall:
		s.call(w, m, stateless)
	case m.Method == mcp.MethodToolsList:
		list := s.list(r.URL.Path, m.Params)
		if stateless {
			list = cacheable(list)
		}
		answer(w, wire.AppendResult(nil, m.ID, list))
	case m.Method == mcp.MethodInitialize && !stateless:
		w.Header().Set(wire.HeaderSession, rand.Text())
		answer(w, wire.AppendResult(nil, m.ID, mcp.Object("protocolVersion", mcp.String(stateful().Name),
			"capabilities", capabilities(), "serverInfo", info())))
	case m.Method == mcp.MethodDiscover && stateless:
		answer(w, wire.AppendResult(nil, m.ID, cacheable(mcp.Object(
			"supportedVersions", mcp.Raw("["+string(mcp.String(wire.Stateless().Name))+"]"),
			"capabilities", capabilities(), "_meta", mcp.Object(wire.MetaServerInfo, info())))))
	default:
		w.Header().Set("Content-Type", "application/json")
		if stateless {
			w.WriteHeader(http.StatusNotFound)
		} else {
			w.WriteHeader(http.StatusBadRequest) // as from a server that knows no such request before initialize
		}
		_, _ = w.Write(wire.AppendError(nil, m.ID, mcp.ErrMethod(m.Method))) // the reader is gone
	}
}

// call answers tools/call.
func (s *server) call(w http.ResponseWriter, m wire.Message, stateless bool) {
	result := func(r mcp.Raw) []byte {
		if stateless {
			r = append([]byte(`{"resultType":"complete",`), r[1:]...)
		}
		return wire.AppendResult(nil, m.ID, r)
	}
	name, _ := m.Params.Member("name")
	if r, ok := s.results[name.Text()]; ok {
		answer(w, result(r))
		return
	}
	switch name.Text() {
	case "events":
		w.Header().Set("Content-Type", "text/event-stream")
		meta, _ := m.Params.Member("_meta")
		token, _ := meta.Member("progressToken")
		flush := http.NewResponseController(w).Flush
		for i := 1; i <= events; i++ {
			note := wire.AppendNotification(nil, mcp.NoteProgress, mcp.Object("progressToken", token,
				"progress", mcp.Raw(strconv.Itoa(i)), "total", mcp.Raw(strconv.Itoa(events))))
			if _, err := w.Write(wire.AppendEvent(nil, "", "message", note)); err != nil || flush() != nil {
				return // the reader is gone
			}
		}
		_, _ = w.Write(wire.AppendEvent(nil, "", "message", result(s.results["small"]))) // the reader is gone
	default:
		answer(w, wire.AppendError(nil, m.ID, mcp.ErrUnknown(m.Method, name.Text())))
	}
}

func answer(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // nothing to do if the reader is gone
}

func capabilities() mcp.Raw { return mcp.Object("tools", mcp.Raw("{}")) }

func info() mcp.Raw {
	return mcp.Object("name", mcp.String("bench"), "version", mcp.String("1"))
}

func cacheable(result mcp.Raw) mcp.Raw {
	return result.With("resultType", mcp.String("complete")).
		With("ttlMs", mcp.Raw("600000")).With("cacheScope", mcp.String("public"))
}

// stateful is the oldest revision that each request names. Most clients with sessions
// support it.
func stateful() *wire.Revision {
	for _, r := range wire.Revisions() {
		if r.Stateful && r.VersionHeader {
			return r
		}
	}
	return wire.NewestStateful()
}

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// The server's endpoints.
const (
	pathStateful  = "/stateful"
	pathStateless = "/stateless"
	pathTools     = "/tools/"  // followed by the number of a list
	pathMerged    = "/merged"  // everything that the gateway lists, on one page
	pathCounts    = "/counted" // not MCP: the requests that reached the server
)

// Sizes of what the server offers.
const (
	smallBytes = 100
	largeBytes = 1 << 20
	lists      = 10
	perList    = 50
	events     = 20
)

// server is a minimal MCP server. It does not check what a client sends: the gateway's
// tests do.
type server struct {
	small, large mcp.Raw // content of the results
	tools        map[string][]byte
	calls, other atomic.Int64
}

// counts are the requests that reached the server so far.
type counts struct {
	Calls int64 `json:"calls"` // tools/call
	Other int64 `json:"other"` // any other request or notification
}

// callTools returns the tools of the two endpoints for calls.
func callTools() []mcp.Raw {
	return []mcp.Raw{tool("small"), tool("large"), tool("events")}
}

func newServer() *server {
	s := &server{small: text(smallBytes), large: text(largeBytes), tools: map[string][]byte{}}
	s.tools[pathStateful] = join(callTools())
	s.tools[pathStateless] = s.tools[pathStateful]
	for i := range lists {
		s.tools[pathTools+strconv.Itoa(i)] = join(listTools(""))
	}
	s.tools[pathMerged] = join(mergedTools())
	return s
}

// mergedTools returns all tools with their names in the gateway.
func mergedTools() []mcp.Raw {
	var all []mcp.Raw
	for _, upstream := range []string{upstreamStateful, upstreamStateless} {
		for _, t := range callTools() {
			name, _ := t.Member("name")
			all = append(all, t.With("name", mcp.String(publicName(upstream, name.Text()))))
		}
	}
	for i := range lists {
		all = append(all, listTools(publicName(upstreamList(i), ""))...)
	}
	return all
}

func listTools(prefix string) []mcp.Raw {
	tools := make([]mcp.Raw, perList)
	for i := range tools {
		tools[i] = tool(fmt.Sprintf("%stool_%02d", prefix, i))
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

// text returns the content member of a result with n bytes of text.
func text(n int) mcp.Raw {
	words := strings.Repeat("All work and no play makes Jack a dull boy. ", n/44+1)
	return mcp.Raw("[" + string(mcp.Object("type", mcp.String("text"), "text", mcp.String(words[:n]))) + "]")
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
		list := mcp.Object("tools", s.tools[r.URL.Path])
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

// call answers tools/call of one of the three tools.
func (s *server) call(w http.ResponseWriter, m wire.Message, stateless bool) {
	result := func(content mcp.Raw) []byte {
		r := mcp.Object("content", content)
		if stateless {
			r = mcp.Object("resultType", mcp.String("complete"), "content", content)
		}
		return wire.AppendResult(nil, m.ID, r)
	}
	name, _ := m.Params.Member("name")
	switch name.Text() {
	case "small":
		answer(w, result(s.small))
	case "large":
		answer(w, result(s.large))
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
		_, _ = w.Write(wire.AppendEvent(nil, "", "message", result(s.small))) // the reader is gone
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

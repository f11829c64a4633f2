package upstream

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Bounds of what is remembered of a server's tools, and of listing them again.
const (
	maxTools     = 10000
	maxToolPages = 50
)

// tools is what the HTTP headers of a call need to know of a stateless server's
// tools: which arguments are mirrored into headers (2026-07-28
// basic/transports/streamable-http#custom-headers-from-tool-parameters).
type tools struct {
	mu      sync.RWMutex // guards the fields below
	round   int          // counts listings
	known   map[string]tool
	dropped map[string]string // tools that cannot be called, and why
}

type tool struct {
	params []wire.ParamHeader
	round  int
}

// learn takes a page of tools/list and returns it without the tools whose
// annotations are wrong: the specification wants these dropped.
func (t *tools) learn(u *Upstream, params mcp.Raw, page *mcp.List) *mcp.List {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, more := params.Member("cursor"); !more {
		t.round++
	}
	if t.known == nil {
		t.known, t.dropped = make(map[string]tool), make(map[string]string)
	}
	kept := make([]mcp.Item, 0, len(page.Items))
	for _, item := range page.Items {
		schema, _ := item.Raw.Member("inputSchema")
		headers, err := wire.ParamHeaders(schema)
		if err != nil {
			if _, said := t.dropped[item.Name]; !said && len(t.dropped) < maxTools {
				t.dropped[item.Name] = err.Error()
				u.log.Warn("tool dropped", "tool", clip(item.Name), "reason", err.Error())
			}
			continue
		}
		delete(t.dropped, item.Name)
		if _, known := t.known[item.Name]; known || len(t.known) < maxTools {
			t.known[item.Name] = tool{params: headers, round: t.round}
		}
		kept = append(kept, item)
	}
	if page.Next == nil && !u.perUser() { // else the tools of other users are not on it
		for name, tool := range t.known {
			if tool.round < t.round {
				delete(t.known, name)
			}
		}
	}
	if len(kept) == len(page.Items) {
		return page
	}
	return &mcp.List{Items: kept, Next: page.Next, Expires: page.Expires, Private: page.Private}
}

// learnUnfolded takes a page of tools whose descriptions were unfolded: arguments that are
// mirrored into headers may stand there.
func (u *Upstream) learnUnfolded(c *mcp.Call, page *mcp.List) *mcp.List {
	if u.isStateful() {
		return page
	}
	return u.tools.learn(u, c.Params, page)
}

func (t *tools) params(name string) []wire.ParamHeader {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.known[name].params
}

func (t *tools) droppedTools() map[string]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.dropped)
}

// relist reads the whole list of tools anew, as the caller of a call sees it, for what
// their headers need.
func (u *Upstream) relist(ctx context.Context, conn transport.Conn, e *era, c *mcp.Call) error {
	call := &mcp.Call{Method: mcp.MethodToolsList, Caller: c.Caller, Notify: func(mcp.Event) {}}
	for range maxToolPages {
		result, _, err := u.roundTrip(ctx, conn, e, call, u.neutral(e.rev))
		if err != nil {
			return err
		}
		list, err := dialect.ReadList(call.Method, result)
		if err != nil {
			return err
		}
		u.tools.learn(u, call.Params, list)
		if list.Next == nil {
			return nil
		}
		call.Params = mcp.Object("cursor", mcp.String(*list.Next))
	}
	return nil
}

// callHeader makes the headers of a call from what is really sent: the name that the
// server knows and the arguments.
func (u *Upstream) callHeader(conn transport.Conn, rev *wire.Revision, c *mcp.Call) http.Header {
	name := ""
	if mcp.NameMember(c.Method) != "" {
		name = c.Name
	}
	header := statelessHeader(conn, rev, c.Method, name)
	if header == nil || c.Method != mcp.MethodToolsCall {
		return header
	}
	params := u.tools.params(c.Name)
	if len(params) == 0 {
		return header
	}
	arguments, _ := c.Params.Member("arguments")
	for _, p := range params {
		if value, ok := p.Value(arguments); ok {
			header[http.CanonicalHeaderKey(wire.HeaderParamPrefix+p.Name)] = []string{value}
		}
	}
	return header
}

// statelessHeader makes the headers that each request has; nil where the transport has
// none.
func statelessHeader(conn transport.Conn, rev *wire.Revision, method, name string) http.Header {
	base := conn.Header()
	if base == nil {
		return nil
	}
	header := make(http.Header, len(base)+3)
	for key, values := range base {
		header[key] = values
	}
	values := [3]string{rev.Name, method, ""}
	header[wire.HeaderVersion] = values[0:1:1]
	header[wire.HeaderMethod] = values[1:2:2]
	if name != "" {
		values[2] = wire.EncodeHeader(name)
		header[wire.HeaderName] = values[2:3:3]
	}
	return header
}

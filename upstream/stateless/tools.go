package stateless

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Bounds on what is remembered of a server's tools, and on listing them again.
const (
	maxTools     = 10000 // with parameters in headers, and tools that were dropped
	maxToolPages = 1000
)

// tools knows what the HTTP headers of a call depend on: which arguments of a stateless server's
// tools are mirrored into headers (2026-07-28
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

// LearnTools reads a page of tools/list, with descriptions that may have been unfolded, and returns
// it without the tools with invalid annotations: the specification requires that these are dropped.
func (d *Dialect) LearnTools(c *mcp.Call, page *mcp.List) *mcp.List {
	t := &d.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, more := c.Params.Member("cursor"); !more {
		t.round++
	}
	if t.known == nil {
		t.known, t.dropped = make(map[string]tool), make(map[string]string)
	}
	kept := make([]mcp.Item, 0, len(page.Items))
	for _, item := range page.Items {
		headers, err := wire.ParamHeaders(item.Raw.At("inputSchema"))
		if err != nil {
			if _, said := t.dropped[item.Name]; !said && len(t.dropped) < maxTools {
				t.dropped[item.Name] = err.Error()
				d.env.Log.Warn("tool dropped", failure.ToolDropped.Attr(), "tool", dialect.Clip(item.Name), "reason", err.Error())
			}
			continue
		}
		delete(t.dropped, item.Name)
		if _, known := t.known[item.Name]; known || len(headers) > 0 && len(t.known) < maxTools {
			t.known[item.Name] = tool{params: headers, round: t.round}
		}
		kept = append(kept, item)
	}
	if page.Next == nil && c.Caps == nil && !d.env.PerUser { // otherwise the tools of other clients are not on it
		maps.DeleteFunc(t.known, func(_ string, known tool) bool { return known.round < t.round })
	}
	return page.With(kept)
}

// DroppedTools maps tools that cannot be called to the reasons.
func (d *Dialect) DroppedTools() map[string]string {
	d.tools.mu.RLock()
	defer d.tools.mu.RUnlock()
	return maps.Clone(d.tools.dropped)
}

// relist reads the caller's whole list of tools again, to learn their headers.
func (d *Dialect) relist(ctx context.Context, conn transport.Conn, rev *wire.Revision, c *mcp.Call) error {
	call := &mcp.Call{Method: mcp.MethodToolsList, Caller: c.Caller, Notify: nothing[mcp.Event]}
	neutral := dialect.Neutral(call, rev)
	page := mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		reply, err := d.roundTrip(ctx, conn, rev, c, neutral)
		if err != nil {
			return nil, err
		}
		return d.reply(c, neutral, reply)
	})
	for _, err := range mcp.Pages(ctx, page, call, maxToolPages) {
		if err != nil {
			return err
		}
	}
	return nil
}

// callHeader makes the headers of a call from what is really sent: the tool name that the
// server knows and the arguments.
func (d *Dialect) callHeader(conn transport.Conn, rev *wire.Revision, c *mcp.Call) http.Header {
	name := ""
	if mcp.NameMember(c.Method) != "" {
		name = c.Name
	}
	header := header(conn, rev, c.Method, name)
	if header == nil || c.Method != mcp.MethodToolsCall {
		return header
	}
	d.tools.mu.RLock()
	params := d.tools.known[c.Name].params
	d.tools.mu.RUnlock()
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

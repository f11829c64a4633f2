package bridge

import (
	"context"
	"maps"
	"net/http"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	// maxTools bounds the tools with parameters in headers that are remembered, maxPages a list.
	maxTools = 10_000
	maxPages = 1000
)

// stateless reports whether a message is complete in itself, without a session.
func stateless(m wire.Message) bool { return m.Params.At("_meta", wire.MetaVersion) != nil }

// tools knows which arguments of a stateless server's tools are repeated in headers (2026-07-28
// basic/transports/streamable-http#custom-headers-from-tool-parameters), by the lists that the host has read.
type tools struct {
	mu     sync.Mutex // guards params
	params map[string][]wire.ParamHeader
}

// learn reads the result of tools/list.
func (t *tools) learn(result mcp.Raw) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.params == nil {
		t.params = make(map[string][]wire.ParamHeader)
	}
	result.At("tools").Elements(func(tool mcp.Raw) bool {
		name := tool.At("name").Text()
		delete(t.params, name)
		headers, err := wire.ParamHeaders(tool.At("inputSchema"))
		if err == nil && len(headers) > 0 && len(t.params) < maxTools {
			t.params[name] = headers
		}
		return true
	})
}

// header returns the headers of a stateless request, nil for those of the session.
func (b *Bridge) header(m wire.Message) http.Header {
	if !stateless(m) {
		return nil
	}
	h := maps.Clone(b.plain.Header())
	h[wire.HeaderVersion] = []string{m.Params.At("_meta", wire.MetaVersion).Text()}
	h[wire.HeaderMethod] = []string{m.Method}
	member := mcp.NameMember(m.Method)
	if member == "" {
		return h
	}
	name := m.Params.At(member).Text()
	h[wire.HeaderName] = []string{wire.EncodeHeader(name)}
	if m.Method != mcp.MethodToolsCall {
		return h
	}
	b.tools.mu.Lock()
	params := b.tools.params[name]
	b.tools.mu.Unlock()
	for _, p := range params {
		if value, ok := p.Value(m.Params.At("arguments")); ok {
			h[http.CanonicalHeaderKey(wire.HeaderParamPrefix+p.Name)] = []string{value}
		}
	}
	return h
}

// relist reads the list of tools again after the server has refused the headers of a call: the host may know the
// list from before.
func (b *Bridge) relist(ctx context.Context, m wire.Message) error {
	params := mcp.Object("_meta", m.Params.At("_meta"))
	for range maxPages {
		list := wire.Message{Kind: wire.Request, ID: mcp.Raw(`"gatehouse"`), Method: mcp.MethodToolsList, Params: params}
		page, err := b.send(ctx, b.plain, list, wire.AppendRequest(nil, list.ID, list.Method, params))
		if err != nil || page.Result == nil {
			return err
		}
		b.tools.learn(page.Result)
		next := page.Result.At("nextCursor")
		if next.IsNull() {
			break
		}
		params = params.With("cursor", next)
	}
	return nil
}

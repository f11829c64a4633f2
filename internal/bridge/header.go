package bridge

import (
	"maps"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// maxTools bounds the tools that are remembered.
const maxTools = 10_000

// stateless reports whether a message is complete in itself, without a session.
func stateless(m wire.Message) bool { return m.Params.At("_meta", wire.MetaVersion) != nil }

// header returns the headers of a stateless request, nil for those of the session.
func (b *Bridge) header(m wire.Message) http.Header {
	if !stateless(m) {
		return nil
	}
	h := maps.Clone(b.plain.Header())
	h.Set(wire.HeaderVersion, m.Params.At("_meta", wire.MetaVersion).Text())
	h.Set(wire.HeaderMethod, m.Method)
	member := mcp.NameMember(m.Method)
	if member == "" {
		return h
	}
	name := m.Params.At(member).Text()
	h.Set(wire.HeaderName, wire.EncodeHeader(name))
	if m.Method != mcp.MethodToolsCall {
		return h
	}
	b.mu.Lock()
	params := b.params[name]
	b.mu.Unlock()
	for _, p := range params {
		if value, ok := p.Value(m.Params.At("arguments")); ok {
			h.Set(wire.HeaderParamPrefix+p.Name, value)
		}
	}
	return h
}

// learn remembers which arguments of tools a stateless server has repeated in headers (2026-07-28
// basic/transports/streamable-http#custom-headers-from-tool-parameters), by a list that the host reads.
func (b *Bridge) learn(list mcp.Raw) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list.At("tools").Elements(func(tool mcp.Raw) bool {
		params, err := wire.ParamHeaders(tool.At("inputSchema"))
		if err == nil {
			b.params[tool.At("name").Text()] = params
		}
		return len(b.params) < maxTools
	})
}

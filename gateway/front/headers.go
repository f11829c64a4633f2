package front

import (
	"net/http"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// checkHeader requires a header, which may be encoded, to be there once and to agree with the
// body (2026-07-28 basic/transports/streamable-http#server-validation).
func checkHeader(h http.Header, name, want string, encoded bool) error {
	lines := h[name]
	switch {
	case len(lines) == 0:
		return refuse.HeaderMismatch("%s is missing", name)
	case len(lines) > 1:
		return refuse.HeaderMismatch("%s stands there twice", name)
	}
	got := lines[0]
	if encoded && (got != want || strings.HasPrefix(got, "=?")) {
		var err error
		if got, err = wire.DecodeHeader(got); err != nil {
			return refuse.HeaderMismatch("%s is malformed", name)
		}
	}
	if got != want {
		return refuse.HeaderMismatch("%s does not match the body", name)
	}
	return nil
}

// paramHeaders returns the Mcp-Param-* headers as they are, for whoever knows the tool's schema.
// Without any it returns none, which is not nil: nil would mean that nothing is to be checked.
func paramHeaders(h http.Header, none map[string]string) (map[string]string, error) {
	found := none
	for name, lines := range h {
		if !strings.HasPrefix(name, wire.HeaderParamPrefix) || len(name) == len(wire.HeaderParamPrefix) {
			continue
		}
		if len(lines) > 1 {
			return nil, refuse.HeaderMismatch("%s stands there twice", name)
		}
		if len(found) == 0 {
			found = make(map[string]string)
		}
		found[strings.ToLower(name[len(wire.HeaderParamPrefix):])] = lines[0]
	}
	return found, nil
}

// sessionID reads the session's id from its header. What cannot be an id of ours is the id of
// no session, before any lookup.
func sessionID(h http.Header) (id string, ref *refuse.Refusal) {
	lines := h[wire.HeaderSession]
	switch {
	case len(lines) == 0:
		return "", refuse.Invalid("Invalid request: %s is missing: start with initialize, or send _meta as a stateless client does", wire.HeaderSession)
	case len(lines) > 1:
		return "", refuse.Invalid("Invalid request: %s stands there twice", wire.HeaderSession)
	}
	if id = lines[0]; !home.ValidID(id) {
		ref, _ = refuse.Session(session.ErrNotFound)
	}
	return id, ref
}

// declared reports whether a client that declared these capabilities may be asked a question.
// If not, required is what it would have to declare.
func declared(caps mcp.Raw, q mcp.InputRequest) (required mcp.Raw, ok bool) {
	has := mcp.ReadDeclared(caps)
	kind, part := "", ""
	switch q.Method {
	case mcp.MethodElicit:
		kind, part, ok = "elicitation", "form", has.Form
		if mode, _ := q.Params.Member("mode"); mode != nil && mode.Text() != "form" {
			part, ok = "url", has.URL
		}
	case mcp.MethodCreateMessage:
		kind, ok = "sampling", true
		_, tools := q.Params.Member("tools")
		_, choice := q.Params.Member("toolChoice")
		if tools || choice {
			part, ok = "tools", has.SamplingTools
		}
	case mcp.MethodRootsList:
		kind, ok = "roots", true
	default:
		return nil, false
	}
	needs := mcp.Raw("{}")
	if part != "" {
		needs = mcp.Object(part, mcp.Raw("{}"))
	}
	return mcp.Object(kind, needs), ok && caps.At(kind).IsObject()
}

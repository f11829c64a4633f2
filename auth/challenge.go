package auth

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// challenge writes the answer to callers that are refused. The era and revision of the client
// are not known yet, so it uses the newest form; older clients ignore what they do not know.
type challenge struct {
	metadata string // the parameter resource_metadata (RFC 9728 §5.1)
	scope    []string
}

func newChallenge(cfg Config, metadataURL string) challenge {
	return challenge{metadata: "resource_metadata=" + quoted(metadataURL), scope: cfg.ScopesSupported}
}

// wanted returns the scopes that a client should ask for: the supported and the granted ones.
// If requests and tokens name scopes differently, the granted ones cannot be asked for again.
func (a *Auth) wanted(granted []string) []string {
	scopes := slices.Clone(a.cfg.ScopesSupported)
	if !slices.Equal(scopes, a.cfg.RequiredScopes) {
		return scopes
	}
	for _, scope := range granted {
		if scope != offlineAccess && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// header is the value of WWW-Authenticate (RFC 6750 §3).
func (c challenge) header(ref *refusal) string {
	params := make([]string, 0, 4)
	if ref.code != "" {
		params = append(params, "error="+quoted(ref.code), "error_description="+quoted(ref.text))
	}
	params = append(params, c.metadata)
	scope := c.scope
	if ref.scope != nil {
		scope = ref.scope
	}
	if len(scope) > 0 {
		params = append(params, "scope="+quoted(strings.Join(scope, " ")))
	}
	return "Bearer " + strings.Join(params, ", ")
}

// refuse answers a request. The body of a POST is not read before its caller is known, so the
// answer has no id. It is a JSON-RPC error nevertheless: without one, official clients
// consider the connection dead.
func (c challenge) refuse(w http.ResponseWriter, r *http.Request, ref *refusal) {
	h := w.Header()
	e := mcp.Errorf(ref.name, "%s", ref.text)
	if ref.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(int((ref.retry+time.Second-1)/time.Second)))
		e.Data = mcp.Object("retryable", mcp.Raw("true"), "executed", mcp.String(string(mcp.ExecutedNo)))
	} else {
		h.Set("WWW-Authenticate", c.header(ref))
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(ref.status)
	if r.Method == http.MethodHead {
		return
	}
	w.Write(mcp.Object("jsonrpc", mcp.String("2.0"), "id", mcp.Raw("null"), "error", mcp.Raw(e.AppendTo(nil))))
}

// quoted is a quoted-string (RFC 9110 §5.6.4) of the printable ASCII in s.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= ' ' && c <= '~':
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

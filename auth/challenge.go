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
	metadata string // the parameter resource_metadata (RFC 9728 §5.1), or realm where there is none
	scope    []string
	dpop     string // as in Config
	algs     string // the parameter of that name (RFC 9449 §7.1)
}

func newChallenge(cfg Config, metadataURL string) challenge {
	c := challenge{metadata: "resource_metadata=" + quoted(metadataURL), scope: cfg.ScopesSupported, dpop: cfg.DPoP,
		algs: "algs=" + quoted(strings.Join(algorithms(), " "))}
	if len(cfg.Servers()) == 0 { // nowhere to get a token; a challenge has some parameter
		c.metadata, c.scope = "realm="+quoted("gatehouse"), nil
	}
	return c
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

// headers are the values of WWW-Authenticate (RFC 6750 §3, RFC 9449 §7.1 and §7.2). The error is in
// that of the scheme that was used.
func (c challenge) headers(ref *refusal, r *http.Request) []string {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	proven := strings.EqualFold(scheme, "dpop")
	switch {
	case c.dpop == DPoPRequired:
		return []string{"DPoP " + c.params(ref) + ", " + c.algs}
	case c.dpop == DPoPAccepted && proven:
		return []string{"Bearer " + c.params(&refusal{scope: ref.scope}), "DPoP " + c.params(ref) + ", " + c.algs}
	case c.dpop == DPoPAccepted:
		return []string{"Bearer " + c.params(ref), "DPoP " + c.algs}
	}
	return []string{"Bearer " + c.params(ref)}
}

// params are the parameters of a challenge.
func (c challenge) params(ref *refusal) string {
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
	return strings.Join(params, ", ")
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
		h["Www-Authenticate"] = c.headers(ref, r)
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

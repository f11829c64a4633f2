package front

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

const (
	corsHeaders = "Authorization, DPoP, Content-Type, Accept, " + wire.HeaderVersion + ", " + wire.HeaderSession + ", " +
		wire.HeaderMethod + ", " + wire.HeaderName + ", " + wire.HeaderLastEventID
	corsExposed = wire.HeaderSession + ", WWW-Authenticate, " + refuse.HeaderRetryAfter + ", " + wire.HeaderVersion
	corsMaxAge  = "600"
)

// checkOrigin refuses requests that a browser sends for a page of a foreign origin, and sets the
// headers for allowed ones. The endpoint's own origin is allowed: its Host has been checked.
func (f *Front) checkOrigin(w http.ResponseWriter, r *http.Request) *refuse.Refusal {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			return refuse.Forbidden(failure.HTTPOrigin, "requests from other sites are not allowed")
		}
		return nil
	}
	if len(origins) > 1 {
		return refuse.Forbidden(failure.HTTPOrigin, "more than one Origin")
	}
	origin := strings.ToLower(origins[0])
	if f.origins[origin] {
		h := w.Header()
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Set("Access-Control-Expose-Headers", corsExposed)
		return nil
	}
	if host := strings.ToLower(r.Host); origin == "http://"+host || origin == "https://"+host {
		return nil
	}
	return refuse.Forbidden(failure.HTTPOrigin, "this Origin is not allowed: see http.allowed_origins")
}

// options answers OPTIONS, whether or not it is a browser's preflight.
func (f *Front) options(w http.ResponseWriter, r *http.Request, v verbs) {
	h := w.Header()
	h.Set("Allow", v.allow())
	if h.Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", string(v))
		h.Set("Access-Control-Allow-Headers", corsHeaders+requestedParams(r))
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
	w.WriteHeader(http.StatusNoContent)
}

// requestedParams repeats the Mcp-Param-* headers that a preflight asks for: a wildcard would
// not apply to requests with credentials.
func requestedParams(r *http.Request) string {
	var list strings.Builder
	for _, line := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if len(name) > len(wire.HeaderParamPrefix) &&
				strings.EqualFold(name[:len(wire.HeaderParamPrefix)], wire.HeaderParamPrefix) &&
				httpguts.ValidHeaderFieldName(name) {
				list.WriteString(", " + name)
			}
		}
	}
	return list.String()
}

package request

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// MaxHeaderFields bounds the header lines of a request.
const MaxHeaderFields = 100

// Checks are the checks of a request that need no caller.
type Checks struct {
	hop            string
	hosts, origins map[string]bool
}

// NewChecks makes Checks that allow web pages of origins, and hosts in addition to the local ones. hop
// names the gateway in the header Via of its own requests; "" for no such check.
func NewChecks(hop string, hosts, origins []string) *Checks {
	c := &Checks{hop, map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}, make(map[string]bool)}
	for _, host := range hosts {
		c.hosts[strings.ToLower(strings.Trim(host, "[]"))] = true
	}
	for _, origin := range origins {
		c.origins[strings.ToLower(origin)] = true
	}
	return c
}

// Verbs are the HTTP methods of a path apart from OPTIONS.
type Verbs []string

// allow returns the value of the Allow header.
func (v Verbs) allow() string { return strings.Join(v, ", ") + ", " + http.MethodOptions }

// Check makes the checks of all methods: of the method, and of what a web page may send without
// its user's intent (2025-11-25 basic/transports#security-warning).
func (c *Checks) Check(w http.ResponseWriter, r *http.Request, v Verbs) *refuse.Refusal {
	if !slices.Contains(v, r.Method) && r.Method != http.MethodOptions {
		return refuse.Method(v.allow())
	}
	if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
		// net/http drops a length beside a chunked body. A proxy in front may have used that
		// length, and what it took for the rest of the body would be read as another request.
		w.Header().Set("Connection", "close")
	}
	if c.hop != "" && slices.ContainsFunc(r.Header["Via"],
		func(via string) bool { return strings.Contains(via, c.hop) }) {
		return refuse.Loop()
	}
	if !c.hosts[hostname(r.Host)] {
		return refuse.Forbidden(failure.HTTPHost,
			"this Host is not served here: have the proxy in front pass on the Host of its clients, or list the one that it sends under http.allowed_hosts")
	}
	if ref := c.checkOrigin(w, r); ref != nil {
		return ref
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		return refuse.Invalid("Invalid request: a %s has no body", r.Method)
	}
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > MaxHeaderFields {
		return refuse.Invalid("Invalid request: more than %d header fields", MaxHeaderFields)
	}
	return nil
}

// hostname returns a Host header without its port, in lower case.
func hostname(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
			return ""
		}
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return strings.ToLower(host)
}

// checkPost makes the remaining checks for a POST. accept says which media types the client
// accepts for an answer. If no answer is due, it need not accept any.
func checkPost(r *http.Request, answered bool) (Accept, *refuse.Refusal) {
	if coding := strings.Join(r.Header["Content-Encoding"], ","); coding != "" && !strings.EqualFold(coding, "identity") {
		return Accept{}, refuse.Media("Content-Encoding is not supported: send the body as it is")
	}
	if kind := r.Header["Content-Type"]; len(kind) != 1 || kind[0] != "application/json" && !isJSON(kind[0]) {
		return Accept{}, refuse.Media("Content-Type must be application/json")
	}
	acc := ReadAccept(r.Header["Accept"])
	if answered && !acc.JSON && !acc.Stream {
		return acc, refuse.Accept("application/json, text/event-stream")
	}
	return acc, nil
}

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}

// Accept holds the media types that a client accepts.
type Accept struct{ JSON, Stream bool }

// ReadAccept reads the Accept header. A missing header accepts everything.
func ReadAccept(values []string) Accept {
	if len(values) == 0 {
		return Accept{JSON: true, Stream: true}
	}
	var a Accept
	for _, value := range values {
		switch value {
		case "", "*/*", "application/json, text/event-stream":
			return Accept{JSON: true, Stream: true}
		}
		for kind := range strings.SplitSeq(value, ",") {
			kind, params, _ := strings.Cut(kind, ";")
			if refused(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "*/*":
				a = Accept{JSON: true, Stream: true}
			case "application/json", "application/*":
				a.JSON = true
			case "text/event-stream", "text/*":
				a.Stream = true
			}
		}
	}
	return a
}

// refused reports whether the parameters of a media range have a weight of zero.
func refused(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && weight == 0
		}
	}
	return false
}

const (
	corsHeaders = "Authorization, DPoP, Content-Type, Accept, " + wire.HeaderVersion + ", " + wire.HeaderSession + ", " +
		wire.HeaderMethod + ", " + wire.HeaderName + ", " + wire.HeaderLastEventID
	corsExposed = wire.HeaderSession + ", WWW-Authenticate, " + refuse.HeaderRetryAfter + ", " + wire.HeaderVersion
	corsMaxAge  = "600"
)

// checkOrigin refuses requests that a browser sends for a page of a foreign origin, and sets the
// headers for allowed ones. The endpoint's own origin is allowed: its Host has been checked.
func (c *Checks) checkOrigin(w http.ResponseWriter, r *http.Request) *refuse.Refusal {
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
	if c.origins[origin] {
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

// Options answers OPTIONS, whether or not it is a browser's preflight.
func (v Verbs) Options(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Allow", v.allow())
	if h.Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", strings.Join(v, ", "))
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

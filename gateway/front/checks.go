package front

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/exchange"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// maxHeaderFields bounds the header lines of a request.
const maxHeaderFields = 100

// verbs are the HTTP methods of a path apart from OPTIONS, in the form of a header's list.
type verbs string

func (v verbs) has(method string) bool {
	for verb := range strings.SplitSeq(string(v), ", ") {
		if verb == method {
			return true
		}
	}
	return method == http.MethodOptions
}

// allow returns the value of the Allow header.
func (v verbs) allow() string { return string(v) + ", " + http.MethodOptions }

// check makes the checks of all methods: of the method, and of what a web page may send without
// its user's intent (2025-11-25 basic/transports#security-warning).
func (f *Front) check(w http.ResponseWriter, r *http.Request, v verbs) *refuse.Refusal {
	if !v.has(r.Method) {
		return refuse.Method(v.allow())
	}
	if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
		// net/http drops a length beside a chunked body. A proxy in front may have used that
		// length, and what it took for the rest of the body would be read as another request.
		w.Header().Set("Connection", "close")
	}
	if f.deps.Hop != "" && slices.ContainsFunc(r.Header["Via"],
		func(via string) bool { return strings.Contains(via, f.deps.Hop) }) {
		return refuse.Loop()
	}
	if !f.hosts[hostname(r.Host)] {
		return refuse.Forbidden(failure.HTTPHost,
			"this Host is not served here: have the proxy in front pass on the Host of its clients, or list the one that it sends under http.allowed_hosts")
	}
	if ref := f.checkOrigin(w, r); ref != nil {
		return ref
	}
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		return refuse.Invalid("Invalid request: a %s has no body", r.Method)
	}
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxHeaderFields {
		return refuse.Invalid("Invalid request: more than %d header fields", maxHeaderFields)
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
func checkPost(r *http.Request, answered bool) (exchange.Accept, *refuse.Refusal) {
	if coding := strings.Join(r.Header["Content-Encoding"], ","); coding != "" && !strings.EqualFold(coding, "identity") {
		return exchange.Accept{}, refuse.Media("Content-Encoding is not supported: send the body as it is")
	}
	if kind := r.Header["Content-Type"]; len(kind) != 1 || kind[0] != "application/json" && !isJSON(kind[0]) {
		return exchange.Accept{}, refuse.Media("Content-Type must be application/json")
	}
	acc := readAccept(r.Header["Accept"])
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

// readAccept reads the Accept header. A missing header accepts everything.
func readAccept(values []string) exchange.Accept {
	if len(values) == 0 {
		return exchange.Accept{JSON: true, Stream: true}
	}
	var a exchange.Accept
	for _, value := range values {
		switch value {
		case "", "*/*", "application/json, text/event-stream":
			return exchange.Accept{JSON: true, Stream: true}
		}
		for kind := range strings.SplitSeq(value, ",") {
			kind, params, _ := strings.Cut(kind, ";")
			if refused(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "*/*":
				a = exchange.Accept{JSON: true, Stream: true}
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

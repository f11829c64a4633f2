package auth

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// refusal is the reason why a request is refused.
type refusal struct {
	status int
	name   failure.Name
	code   string        // error of RFC 6750 §3.1, "" where no token was presented
	text   string        // for people; never a part of the request
	scope  []string      // what to ask for; nil for what is always told
	retry  time.Duration // for 503
	cause  error         // for the log
}

// Codes of RFC 6750 §3.1.
const (
	codeInvalidRequest    = "invalid_request"
	codeInvalidToken      = "invalid_token"
	codeInsufficientScope = "insufficient_scope"

	codeInvalidProof = "invalid_dpop_proof" // RFC 9449 §7.1
)

// noToken asks for a token.
func noToken(text string) *refusal {
	return &refusal{status: http.StatusUnauthorized, name: failure.TokenMissing, text: text}
}

// badRequest refuses a request with an ambiguous token.
func badRequest(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, name: failure.TokenMalformed, code: codeInvalidRequest, text: text}
}

// badToken refuses a token that does not prove who calls.
func badToken(text string, cause error) *refusal {
	return &refusal{status: http.StatusUnauthorized, name: failure.TokenInvalid, code: codeInvalidToken,
		text: text, cause: cause}
}

// badProof refuses a token if its proof does not show that its client sends it.
func badProof(text string, cause error) *refusal {
	return &refusal{status: http.StatusUnauthorized, name: failure.TokenInvalid, code: codeInvalidProof,
		text: text, cause: cause}
}

// unfit refuses a valid token of a user who cannot be served. RFC 6750 has no code for it, because
// another token would not help.
func unfit(text string) *refusal {
	return &refusal{status: http.StatusForbidden, name: failure.UserRefused, text: text}
}

// noJudgement says that the gateway cannot judge. On a 401 the client would throw away a
// token that may be valid.
func noJudgement(text string, retry time.Duration, cause error) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, name: failure.IssuerDown, text: text,
		retry: retry, cause: cause}
}

// attrs are the log attributes of a refusal.
func (r *refusal) attrs() []any {
	attrs := []any{slog.Int("status", r.status), slog.String("reason", r.text), r.name.Attr()}
	if r.cause != nil {
		attrs = append(attrs, slog.Any("cause", r.cause))
	}
	return attrs
}

// productPattern is a product of RFC 9110 §10.1.5, without its version and not longer than is usual.
var productPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}$")

// agentOf returns the product with which User-Agent begins, "" if there is none. Nor is there one if it is
// a part of the credentials: what is recorded never has any.
func agentOf(r *http.Request) string {
	product, _, _ := strings.Cut(r.UserAgent(), " ")
	product, _, _ = strings.Cut(product, "/")
	if !productPattern.MatchString(product) || strings.Contains(strings.Join(r.Header.Values("Authorization"), " "),
		product) {
		return ""
	}
	return product
}

package auth

import (
	"log/slog"
	"net/http"
	"time"
)

// refusal is why a request goes no further.
type refusal struct {
	status int
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
)

// noToken asks for one.
func noToken(text string) *refusal { return &refusal{status: http.StatusUnauthorized, text: text} }

// badRequest is a request that does not say what its token is.
func badRequest(text string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, text: text}
}

// badToken is a token that does not prove who calls.
func badToken(text string, cause error) *refusal {
	return &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, text: text, cause: cause}
}

// unfit is a good token whose user we cannot serve. It has no code of RFC 6750: another
// token would be no better.
func unfit(text string) *refusal { return &refusal{status: http.StatusForbidden, text: text} }

// noJudgement says that we cannot tell: a client that were told 401 would throw away a
// token that may be good.
func noJudgement(text string, retry time.Duration, cause error) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, text: text, retry: retry, cause: cause}
}

// attrs is a refusal for the log.
func (r *refusal) attrs() []any {
	attrs := []any{slog.Int("status", r.status), slog.String("reason", r.text)}
	if r.cause != nil {
		attrs = append(attrs, slog.Any("cause", r.cause))
	}
	return attrs
}

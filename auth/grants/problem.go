package grants

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// Codes of errors (RFC 6749 §4.1.2.1 and §5.2, RFC 8707 §2).
const (
	codeInvalidRequest     = "invalid_request"
	codeInvalidClient      = "invalid_client"
	codeInvalidGrant       = "invalid_grant"
	codeInvalidScope       = "invalid_scope"
	codeInvalidTarget      = "invalid_target"
	codeGrantType          = "unsupported_grant_type"
	codeUnauthorizedClient = "unauthorized_client"
	codeResponseType       = "unsupported_response_type"
	codeAccessDenied       = "access_denied"
	codeLoginRequired      = "login_required"
	codeServerError        = "server_error"
	codeUnavailable        = "temporarily_unavailable"
)

// oauthError is an error that clients and users may read.
type oauthError struct{ code, text string }

func (e *oauthError) Error() string { return e.text }

func fail(code, text string) *oauthError { return &oauthError{code, text} }

// problems tells clients and users what is wrong, and the log the rest.
type problems struct{ log *slog.Logger }

// public returns what of an error may be read. Others are logged.
func (s problems) public(r *http.Request, err error) *oauthError {
	if known, ok := errors.AsType[*oauthError](err); ok {
		return known
	}
	s.log.WarnContext(r.Context(), "authorization server: a request failed", failure.Internal.Attr(), "path",
		r.URL.Path, "error", err)
	return fail(codeUnavailable, "The gateway cannot do this now. Try again.")
}

// refuse answers a client at the token endpoint, or one like it (RFC 6749 §5.2).
func (s problems) refuse(w http.ResponseWriter, r *http.Request, err error) *oauthError {
	e := s.public(r, err)
	status := http.StatusBadRequest
	switch e.code {
	case codeInvalidClient:
		status = http.StatusUnauthorized
		if r.Header.Get("Authorization") != "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="gatehouse"`)
		}
	case codeUnavailable:
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	case codeServerError:
		status = http.StatusInternalServerError
	}
	s.answer(w, status, map[string]any{"error": e.code, "error_description": e.text})
	return e
}

func (s problems) answer(w http.ResponseWriter, status int, body map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(text)
}

package issuer

import (
	"errors"
	"net/http"
)

// Error codes of RFC 6749 §4.1.2.1 and §5.2, RFC 7009 §2.2.1, RFC 7591 §3.2.2,
// RFC 8707 §2.
const (
	errAccessDenied    = "access_denied"
	errInvalidClient   = "invalid_client"
	errInvalidGrant    = "invalid_grant"
	errInvalidMetadata = "invalid_client_metadata"
	errInvalidRedirect = "invalid_redirect_uri"
	errInvalidRequest  = "invalid_request"
	errInvalidScope    = "invalid_scope"
	errInvalidTarget   = "invalid_target"
	errUnauthorized    = "unauthorized_client"
	errUnsupported     = "unsupported_grant_type"
	errResponseType    = "unsupported_response_type"
	errTokenType       = "unsupported_token_type"
)

// problem is an OAuth error. Texts for programs contain nothing from a request, since RFC
// 6749 allows neither quotes nor backslashes there.
type problem struct {
	Code string `json:"error"`
	Text string `json:"error_description"`
	// basic asks for credentials by HTTP Basic, if bad ones were sent that way.
	basic bool
}

func (p *problem) Error() string { return p.Code + ": " + p.Text }

func fail(code, text string) error { return &problem{Code: code, Text: text} }

func writeError(w http.ResponseWriter, err error) {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	status := http.StatusBadRequest
	if p.Code == errInvalidClient {
		status = http.StatusUnauthorized
		if p.basic { // RFC 6749 §5.2
			w.Header().Set("WWW-Authenticate", `Basic realm="development issuer"`)
		}
	}
	writeJSON(w, status, p)
}

package issuer

import (
	"net/http"
	"strings"
)

// introspection is the response of RFC 7662 §2.2: the claims, and whether the token is
// active.
type introspection struct {
	Active    bool   `json:"active"`
	TokenType string `json:"token_type,omitempty"`
	*claims
}

// introspect tells a client that serves a resource about tokens for it; all other tokens
// count as inactive (RFC 7662 §2.2).
func (s *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(r)
	if err != nil {
		writeError(w, err)
		return
	}
	from, err := s.authenticate(r, form)
	if err == nil && (from.with == nil || from.with.Resource == "") {
		err = fail(errInvalidClient, "introspection is for clients that serve a resource")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	c, err := s.verify(form.Get("token"), from.with.Resource)
	if err != nil {
		writeJSON(w, http.StatusOK, introspection{})
		return
	}
	writeJSON(w, http.StatusOK, introspection{Active: true, TokenType: "Bearer", claims: &c})
}

// revoke ends a refresh token (RFC 7009). Access tokens expire by themselves.
func (s *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(r)
	if err != nil {
		writeError(w, err)
		return
	}
	from, err := s.authenticate(r, form)
	if err != nil {
		writeError(w, err)
		return
	}
	token := form.Get("token")
	switch {
	case token == "":
		writeError(w, fail(errInvalidRequest, "token is missing"))
		return
	case strings.Count(token, ".") == 2:
		writeError(w, fail(errTokenType, "access tokens cannot be revoked, they end soon"))
		return
	}
	s.grants.revoke(token, from.id)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

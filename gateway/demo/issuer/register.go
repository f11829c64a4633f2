package issuer

import (
	"encoding/json"
	"mime"
	"net/http"
	"time"
)

// registrationResponse is the response of RFC 7591 §3.2.1.
type registrationResponse struct {
	ClientID      string   `json:"client_id"`
	IssuedAt      int64    `json:"client_id_issued_at"`
	Name          string   `json:"client_name"`
	Redirects     []string `json:"redirect_uris"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
}

// register accepts any client, always as one without a secret; the response says so (RFC
// 7591 §2: the server may replace values).
func (s *Issuer) register(w http.ResponseWriter, r *http.Request) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		writeError(w, fail(errInvalidMetadata, "want Content-Type application/json"))
		return
	}
	var m clientMetadata
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		writeError(w, fail(errInvalidMetadata, "the body is not a JSON object of client metadata"))
		return
	}
	for _, uri := range m.Redirects {
		if err := checkRedirect(uri); err != nil {
			writeError(w, fail(errInvalidRedirect, err.Error()))
			return
		}
	}
	c, err := m.client()
	if err != nil {
		writeError(w, fail(errInvalidMetadata, err.Error()))
		return
	}
	id, ok := registeredID(c)
	if !ok {
		writeError(w, fail(errInvalidMetadata, "the redirect URIs are too long together"))
		return
	}
	grants := []string{grantCode}
	if c.refreshes {
		grants = append(grants, grantRefresh)
	}
	s.log.Info("development issuer: client registered", "client", c.name, "redirect", destination(c.redirects[0]))
	writeJSON(w, http.StatusCreated, registrationResponse{
		ClientID: id, IssuedAt: time.Now().Unix(), Name: c.name, Redirects: c.redirects,
		GrantTypes: grants, ResponseTypes: []string{"code"}, AuthMethod: "none",
	})
}

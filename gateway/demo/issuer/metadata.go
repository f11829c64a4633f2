package issuer

import (
	"encoding/json"
	"net/http"
)

const (
	authorizePath  = "/authorize"
	tokenPath      = "/token"
	registerPath   = "/register"
	revokePath     = "/revoke"
	introspectPath = "/introspect"
	jwksPath       = "/jwks"
)

// metadata is the document of RFC 8414 and of OpenID Connect Discovery, with the latter's
// required members. Nevertheless there are no ID tokens: clients of MCP use OpenID Connect
// only for its discovery.
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	RevocationAuthMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	IntrospectionMethods  []string `json:"introspection_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ClientDocuments       bool     `json:"client_id_metadata_document_supported"`
	SubjectTypes          []string `json:"subject_types_supported"`
	IDTokenAlgorithms     []string `json:"id_token_signing_alg_values_supported"`
	Documentation         string   `json:"service_documentation"`
}

func (s *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	withSecret := []string{"client_secret_basic", "client_secret_post"}
	methods := append([]string{"none"}, withSecret...)
	url := s.cfg.URL
	writeJSON(w, http.StatusOK, metadata{
		Issuer:                url,
		AuthorizationEndpoint: url + authorizePath,
		TokenEndpoint:         url + tokenPath,
		RegistrationEndpoint:  url + registerPath,
		RevocationEndpoint:    url + revokePath,
		IntrospectionEndpoint: url + introspectPath,
		JWKSURI:               url + jwksPath,
		Scopes:                s.cfg.scopeNames(),
		ResponseTypes:         []string{"code"},
		ResponseModes:         []string{"query"},
		GrantTypes:            []string{grantCode, grantRefresh, grantClient, grantExchange},
		TokenAuthMethods:      methods,
		RevocationAuthMethods: methods,
		IntrospectionMethods:  withSecret,
		ChallengeMethods:      []string{"S256"},
		IssParameter:          true,
		ClientDocuments:       s.documents.fetch != nil,
		SubjectTypes:          []string{"public"},
		IDTokenAlgorithms:     []string{string(algorithm)},
		Documentation:         url + "/",
	})
}

// writeJSON answers with a document that must not be cached: keys and issuer change with
// each start.
func writeJSON(w http.ResponseWriter, status int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

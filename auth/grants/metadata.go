package grants

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	wellKnownOAuth = "/.well-known/oauth-authorization-server" // RFC 8414
	wellKnownOIDC  = "/.well-known/openid-configuration"       // OpenID Connect Discovery
)

// Grant types.
const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
	// grantAssertion is for identity assertions (RFC 7523 §2.1), profileAssertion says so.
	grantAssertion   = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	profileAssertion = "urn:ietf:params:oauth:grant-profile:id-jag"
)

// metadata is the document of RFC 8414. It is at the path of OpenID Connect, too, where some clients
// look first, and has what that requires; nevertheless there are no ID tokens.
func metadata(cfg auth.ServerConfig, clients Clients, scopes []string) mcp.Raw {
	at := func(path string) mcp.Raw { return mcp.String(cfg.Origin() + path) }
	yes := func(is bool) mcp.Raw {
		if is {
			return mcp.Raw("true")
		}
		return mcp.Raw("false")
	}
	types := []string{grantCode, grantRefresh}
	if cfg.IDJAG {
		types = append(types, grantAssertion)
	}
	doc := mcp.Object("issuer", mcp.String(cfg.Issuer),
		"authorization_endpoint", at(authorizePath),
		"token_endpoint", at(tokenPath),
		"revocation_endpoint", at(revokePath),
		"jwks_uri", at(jwksPath),
		"response_types_supported", mcp.Strings([]string{"code"}),
		"response_modes_supported", mcp.Strings([]string{"query"}),
		"grant_types_supported", mcp.Strings(types),
		"code_challenge_methods_supported", mcp.Strings([]string{"S256"}),
		"token_endpoint_auth_methods_supported", mcp.Strings(clients.Methods()),
		"revocation_endpoint_auth_methods_supported", mcp.Strings(clients.Methods()),
		"authorization_response_iss_parameter_supported", yes(true), // RFC 9207
		"client_id_metadata_document_supported", yes(clients.Documents()),
		"subject_types_supported", mcp.Strings([]string{"public"}),
		"id_token_signing_alg_values_supported", mcp.Strings([]string{"ES256"}),
	)
	if clients.Registers() {
		doc = doc.With("registration_endpoint", at(registerPath))
	}
	if cfg.IDJAG {
		doc = doc.With("authorization_grant_profiles_supported", mcp.Strings([]string{profileAssertion}))
	}
	if len(scopes) > 0 {
		doc = doc.With("scopes_supported", mcp.Strings(scopes))
	}
	return doc
}

// serveDocument serves the metadata.
func serveDocument(document mcp.Raw) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Write(document)
	}
}

// metadataPaths returns where clients look for the metadata: by the issuer's URL, at the root of the
// host (2025-03-26), and by the URL of an endpoint, which some take for the issuer.
func metadataPaths(issuer string, resources []string) []string {
	paths := []string{wellKnownOAuth, wellKnownOIDC}
	for _, at := range append([]string{issuer}, resources...) {
		u, err := url.Parse(at)
		if err != nil || strings.Trim(u.Path, "/") == "" {
			continue
		}
		for _, path := range []string{wellKnownOAuth + u.Path, wellKnownOIDC + u.Path, u.Path + wellKnownOIDC} {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

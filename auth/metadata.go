package auth

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// metadataPath is the path of the metadata for a resource without a path in its URL; otherwise the
// resource's path is appended (RFC 9728 §3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataDocument is the protected resource metadata (RFC 9728 §2).
type metadataDocument struct {
	url  string // as clients see it
	path string
	body mcp.Raw
}

func newMetadata(cfg Config, publicURL string) metadataDocument {
	origin, path := publicURL, ""
	if u, err := url.Parse(publicURL); err == nil {
		origin = u.Scheme + "://" + u.Host
		path = strings.TrimPrefix(publicURL, origin)
	}
	if path == "/" {
		path = ""
	}
	doc := mcp.Object("resource", mcp.String(publicURL),
		"authorization_servers", mcp.Strings(cfg.forClients()),
		"bearer_methods_supported", mcp.Strings([]string{"header"}))
	if len(cfg.ScopesSupported) > 0 {
		doc = doc.With("scopes_supported", mcp.Strings(cfg.ScopesSupported))
	}
	if cfg.DPoP != DPoPOff {
		doc = doc.With("dpop_signing_alg_values_supported", mcp.Strings(algorithms()))
	}
	if cfg.DPoP == DPoPRequired {
		doc = doc.With("dpop_bound_access_tokens_required", mcp.Raw("true"))
	}
	return metadataDocument{
		url:  origin + metadataPath + path,
		path: metadataPath + path,
		body: doc,
	}
}

// documents returns the metadata of places by their paths. There are none without an authorization
// server: a client that looked for one would only find an error that is harder to understand than
// the challenge.
func documents(cfg Config, places map[string]place) map[string]mcp.Raw {
	all := make(map[string]mcp.Raw)
	if len(cfg.Servers()) == 0 {
		return all
	}
	for _, at := range places {
		all[at.path] = at.body
	}
	all[metadataPath] = places[""].body
	return all
}

// MetadataPaths returns the paths for Metadata: those in challenges, and the root, where some
// clients look by themselves (2025-11-25
// basic/authorization#protected-resource-metadata-discovery-requirements). There are none without
// an authorization server.
func (a *Auth) MetadataPaths() []string {
	return slices.Sorted(maps.Keys(a.at.Load().documents))
}

// Metadata serves the protected resource metadata, to every client and every web page: at the path
// of a view those of the view, at any other path those of the endpoint. They depend on the
// configuration alone, never on a request or its Host. Without an authorization server it answers
// 404.
func (a *Auth) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		documents := a.at.Load().documents
		if len(documents) == 0 {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=300")
			body, ok := documents[r.URL.EscapedPath()]
			if !ok {
				body = documents[metadataPath]
			}
			w.Write(body) // net/http leaves it out for HEAD
		case http.MethodOptions:
			// MCP clients in browsers send headers of their own with every request.
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Headers", "*")
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "use GET", http.StatusMethodNotAllowed)
		}
	})
}

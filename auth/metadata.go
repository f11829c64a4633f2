package auth

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// metadataPath is the path of the metadata for a resource whose URL has no path; otherwise
// the resource's path is appended (RFC 9728 §3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataDocument is the protected resource metadata (RFC 9728 §2).
type metadataDocument struct {
	url  string // as clients are told
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
		"authorization_servers", issuerURLs(cfg),
		"bearer_methods_supported", mcp.Strings([]string{"header"}))
	if len(cfg.ScopesSupported) > 0 {
		doc = doc.With("scopes_supported", mcp.Strings(cfg.ScopesSupported))
	}
	return metadataDocument{
		url:  origin + metadataPath + path,
		path: metadataPath + path,
		body: doc,
	}
}

// MetadataPaths returns the paths for Metadata: those in challenges, and the root, where some
// clients look by themselves (2025-11-25
// basic/authorization#protected-resource-metadata-discovery-requirements). There are none in
// mode none.
func (a *Auth) MetadataPaths() []string {
	return slices.Sorted(maps.Keys(a.documents))
}

// Metadata serves the protected resource metadata, to everybody and to every web page: at the
// path of a view those of the view, at any other path those of the endpoint. They depend on the configuration alone, never on a request or its Host. In mode none it answers
// 404.
func (a *Auth) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.oauth {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "public, max-age=300")
			body, ok := a.documents[r.URL.EscapedPath()]
			if !ok {
				body = a.documents[metadataPath]
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

func issuerURLs(cfg Config) mcp.Raw {
	var urls []string
	for _, iss := range cfg.Issuers {
		urls = append(urls, iss.URL)
	}
	return mcp.Strings(urls)
}

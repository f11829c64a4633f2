package clientele

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxDocument bounds a document about a client, in bytes. The draft recommends 5 KB; documents
	// with several redirect URIs and keys are longer.
	maxDocument    = 32 << 10
	maxDocumentURL = 255 // tokens have no longer ids
	maxRedirects   = 20
	maxURI         = 200
)

// checkDocumentURL refuses a client_id that cannot be the URL of a document: it has to be https with
// a path, and to have one spelling (draft-ietf-oauth-client-id-metadata-document §3). The error goes on
// after the name of what it is about.
func checkDocumentURL(id string) error {
	if len(id) > maxDocumentURL {
		return fmt.Errorf("is longer than %d bytes", maxDocumentURL)
	}
	r, err := parseRedirect(id) // the same rules hold
	switch {
	case err != nil:
		return err
	case r.scheme != "https":
		return errors.New("is not https")
	case !strings.HasPrefix(r.rest, "/") || strings.HasPrefix(r.rest, "/?") || r.rest == "/":
		return errors.New("has no path")
	}
	return nil
}

// hostOf returns the host of the URL of a document, without its port.
func hostOf(id string) string {
	r, err := parseRedirect(id)
	if err != nil {
		return ""
	}
	return r.host
}

// metadata describe a client in its own words, in a document or a registration (RFC 7591 §2). Names
// of members are compared exactly, unlike those of a struct.
type metadata map[string]json.RawMessage

func parseMetadata(body []byte) (m metadata, err error) {
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return nil, errors.New("is not a JSON object")
	}
	return m, nil
}

// text returns a string, "" if there is none.
func (m metadata) text(name string) (s string, err error) {
	if raw, has := m[name]; has && json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("has a %s that is not a text", name)
	}
	return s, nil
}

// list returns a list of strings, nil if there is none.
func (m metadata) list(name string) (l []string, err error) {
	if raw, has := m[name]; has && json.Unmarshal(raw, &l) != nil {
		return nil, fmt.Errorf("has a %s that is not a list of texts", name)
	}
	return l, nil
}

// redirects returns the redirect URIs, which are needed.
func (m metadata) redirects() ([]string, error) {
	uris, err := m.list("redirect_uris")
	switch {
	case err != nil:
		return nil, err
	case len(uris) == 0:
		return nil, errors.New("has no redirect_uris")
	case len(uris) > maxRedirects:
		return nil, fmt.Errorf("has more than %d redirect_uris", maxRedirects)
	}
	for _, uri := range uris {
		if _, err := parseRedirect(uri); err != nil {
			return nil, fmt.Errorf("has the redirect URI %.100q, which %w", uri, err)
		}
	}
	return uris, nil
}

// flow refuses clients that want another flow than the one with a code.
func (m metadata) flow() error {
	grants, err := m.list("grant_types")
	if err != nil {
		return err
	}
	if grants != nil && !slices.Contains(grants, "authorization_code") {
		return errors.New("has grant_types without authorization_code")
	}
	responses, err := m.list("response_types")
	if err != nil {
		return err
	}
	if responses != nil && !slices.Contains(responses, "code") {
		return errors.New("has response_types without code")
	}
	return nil
}

// name returns what the client calls itself, and its page; "" for none.
func (m metadata) name() (name, uri string, err error) {
	if name, err = m.text("client_name"); err != nil {
		return "", "", err
	}
	if uri, err = m.text("client_uri"); err != nil {
		return "", "", err
	}
	if u, err := url.Parse(uri); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(uri) > maxURI ||
		checkText(uri) != nil {
		uri = "" // it is of no use
	}
	return cleanName(name), uri, nil
}

// parseDocument returns the client that the document at this URL is about. The error goes on after
// the name of the document.
func parseDocument(id string, body []byte) (c Client, err error) {
	if len(body) > maxDocument {
		return c, fmt.Errorf("is longer than %d bytes", maxDocument)
	}
	m, err := parseMetadata(body)
	if err != nil {
		return c, err
	}
	c = Client{ID: id, Kind: KindDocument}
	own, err := m.text("client_id")
	switch {
	case err != nil:
		return c, err
	case own != id:
		return c, fmt.Errorf("is about the client_id %.200q, not about the one at whose URL it is", own)
	}
	for _, secret := range []string{"client_secret", "client_secret_expires_at"} {
		if _, has := m[secret]; has {
			return c, fmt.Errorf("has %s, which nobody may read in a document", secret)
		}
	}
	if c.Method, err = m.documentMethod(); err != nil {
		return c, err
	}
	if c.Redirects, err = m.redirects(); err != nil {
		return c, err
	}
	if c.Name, c.URI, err = m.name(); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = hostOf(id)
	}
	return c, m.flow()
}

// documentMethod returns how a client with a document proves who it is.
func (m metadata) documentMethod() (string, error) {
	method, err := m.text("token_endpoint_auth_method")
	if err != nil {
		return "", err
	}
	others, err := m.list("token_endpoint_auth_methods_supported")
	if err != nil {
		return "", err
	}
	if method == "" || method == MethodNone || slices.Contains(others, MethodNone) {
		return MethodNone, nil
	}
	return "", fmt.Errorf("has the token_endpoint_auth_method %.50q: only %s is supported", method, MethodNone)
}

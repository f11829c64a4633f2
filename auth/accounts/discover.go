package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/safelink"
)

const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	wellKnownOAuth    = "/.well-known/oauth-authorization-server"
	wellKnownOpenID   = "/.well-known/openid-configuration"
)

// web makes requests to what a server names, a *safehttp.Client.
type web interface {
	Do(*http.Request) (*safehttp.Response, error)
}

// place describes where users of a server sign in, by the metadata of server and authorization server.
type place struct {
	resource string // for the parameter resource
	issuer   string
	authURL, tokenURL,
	registerURL, revokeURL string // the last two "" for none
	namesItself bool     // its answers have iss (RFC 9207 §2.3)
	documents   bool     // it knows client ID metadata documents
	methods     []string // token_endpoint_auth_methods_supported
	scopes      []string // to ask for
}

// errNone is the error for a document that is not there.
var errNone = errors.New("there is no such document")

// discover finds out where users sign in for a server, in the order of 2026-07-28
// basic/authorization/authorization-server-discovery. Errors are a *Problem.
func (s Server) discover(ctx context.Context, by web) (*place, error) {
	asked := s.challenge(ctx, by)
	p := &place{resource: s.identifier(), issuer: s.Issuer}
	described, err := s.describe(ctx, by, asked.metadata)
	switch {
	case errors.Is(err, errNone):
		// Servers of 2025-03-26 are their own authorization servers.
		if p.issuer == "" {
			if p.issuer, _, err = split(s.URL); err != nil {
				return nil, problem(err, "The address of the server is not one for sign-ins")
			}
		}
	case err != nil:
		return nil, err
	default:
		p.resource = described.At("resource").Text()
		if p.issuer, err = s.choose(texts(described.At("authorization_servers"))); err != nil {
			return nil, err
		}
	}
	doc, err := authorizationServer(ctx, by, p.issuer)
	if err != nil {
		return nil, problem(err, "The authorization server of this server does not describe itself as it should")
	}
	if err := p.read(doc, s.local(), s.Issuer != ""); err != nil {
		return nil, err
	}
	if err := p.mixUp(s.Issuer != ""); err != nil {
		return nil, err
	}
	switch {
	case asked.scopes != nil:
		p.scopes = asked.scopes
	case len(s.Scopes) > 0:
		p.scopes = s.Scopes
	default:
		p.scopes = texts(described.At("scopes_supported"))
	}
	p.scopes = slices.DeleteFunc(slices.Clone(p.scopes), func(scope string) bool { return !isScope(scope) })
	const refresh = "offline_access" // for a refresh token, only where it is known
	if len(p.scopes) > 0 && !slices.Contains(p.scopes, refresh) &&
		slices.Contains(texts(doc.At("scopes_supported")), refresh) {
		p.scopes = append(p.scopes, refresh)
	}
	return p, nil
}

// identifier is the name that the server has to give itself.
func (s Server) identifier() string {
	if s.Resource != "" {
		return s.Resource
	}
	return s.URL
}

// local reports whether the server is on this machine, where developers have no TLS.
func (s Server) local() bool { return strings.HasPrefix(s.URL, "http://") }

// challenge asks the server without a token. Servers that say nothing have a description at a place
// that is known.
func (s Server) challenge(ctx context.Context, by web) challenge {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return challenge{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := by.Do(req)
	if err != nil || answer.Status != http.StatusUnauthorized {
		return challenge{}
	}
	return readChallenge(answer.Header)
}

// describe reads the server's metadata (RFC 9728): where its challenge says, else at the two places
// for them. The error is errNone if there are none, or a *Problem.
func (s Server) describe(ctx context.Context, by web, named string) (mcp.Raw, error) {
	origin, path, err := split(s.URL)
	if err != nil {
		return nil, problem(err, "The address of the server is not one for sign-ins")
	}
	at := []string{origin + wellKnownResource + path, origin + wellKnownResource}
	switch {
	case named != "":
		at = []string{named}
	case path == "":
		at = at[1:]
	}
	for _, from := range at {
		doc, err := document(ctx, by, from)
		if errors.Is(err, errNone) && named == "" {
			continue
		}
		if err != nil {
			// and is not errNone
			return nil, problem(errors.New(err.Error()), "The server does not describe itself as it should")
		}
		// A document describes the resource with the identifier that its own address is made from
		// (RFC 9728 §3.3): the root's may describe the whole host.
		is := doc.At("resource").Text()
		if !sameResource(is, s.identifier()) && !(s.Resource == "" && from == origin+wellKnownResource &&
			sameResource(is, origin)) {
			return nil, problem(fmt.Errorf("%s names the resource %.200q, not %q; auth.resource says which one is right",
				hostOf(from), is, s.identifier()),
				"The server describes itself as another server")
		}
		return doc, nil
	}
	return nil, errNone
}

// choose picks one of the authorization servers that a server names.
func (s Server) choose(named []string) (string, error) {
	switch {
	case s.Issuer == "" && len(named) > 0:
		return named[0], nil
	case s.Issuer != "" && (len(named) == 0 || mcp.HasIdentifier(named, s.Issuer)):
		return s.Issuer, nil
	case s.Issuer != "": // credentials of one are never used at another
		return "", problem(fmt.Errorf("its metadata name the authorization servers %.300q, and auth.authorization_server %q",
			named, s.Issuer),
			"The server has another authorization server than the one that is configured for it")
	}
	return "", problem(nil, "The server names no authorization server")
}

// authorizationServer reads the metadata of an authorization server (RFC 8414, OpenID Connect
// Discovery 1.0).
func authorizationServer(ctx context.Context, by web, issuer string) (mcp.Raw, error) {
	origin, path, err := split(issuer)
	if err != nil || strings.ContainsAny(issuer, "?#") {
		return nil, fmt.Errorf("%.200q is not an issuer", issuer)
	}
	at := []string{origin + wellKnownOAuth + path, origin + wellKnownOpenID + path}
	if path != "" {
		at = append(at, origin+path+wellKnownOpenID)
	}
	var none error
	for _, from := range at {
		doc, err := document(ctx, by, from)
		if errors.Is(err, errNone) {
			none = errors.Join(none, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if is := doc.At("issuer").Text(); !mcp.SameIdentifier(is, issuer) { // RFC 8414 §3.3
			return nil, fmt.Errorf("the metadata at %s are of another issuer: %.200q", hostOf(from), is)
		}
		return doc, nil
	}
	return nil, none
}

// read reads what the metadata of an authorization server say. Local ones may send users to their
// own computer. For one that the operator has chosen, silence about PKCE is no refusal.
func (p *place) read(doc mcp.Raw, local, chosen bool) error {
	p.authURL, p.tokenURL = doc.At("authorization_endpoint").Text(), doc.At("token_endpoint").Text()
	p.registerURL, p.revokeURL = doc.At("registration_endpoint").Text(), doc.At("revocation_endpoint").Text()
	p.namesItself = doc.At("authorization_response_iss_parameter_supported").IsTrue()
	p.documents = doc.At("client_id_metadata_document_supported").IsTrue()
	p.methods = texts(doc.At("token_endpoint_auth_methods_supported"))
	if err := safelink.Check(p.authURL, local); err != nil || strings.Contains(p.authURL, "#") {
		return problem(err, "The authorization server of this server names no page where users can sign in")
	}
	if _, _, err := split(p.tokenURL); err != nil {
		return problem(err, "The authorization server of this server names no token endpoint")
	}
	pkce := doc.At("code_challenge_methods_supported")
	if !slices.Contains(texts(pkce), "S256") && !(chosen && pkce.IsNull()) {
		return problem(errors.New("code_challenge_methods_supported has no S256; if it is only not said, "+
			"configure it as the authorization server: that vouches for it"),
			"The authorization server of this server does not protect sign-ins as it has to (PKCE with S256)")
	}
	return nil
}

// mixUp refuses what a mix-up needs (RFC 9700 §4.4): metadata that send users to sign in at a foreign
// authorization server, and their code to a token endpoint of the author's. Metadata may name another
// site only if the answers have to name their issuer (RFC 9207), which end checks, or if the operator
// has chosen the authorization server.
func (p *place) mixUp(chosen bool) error {
	if chosen || p.namesItself || sameSite(p.authURL, p.issuer) {
		return nil
	}
	return problem(fmt.Errorf("the metadata of %.200q have an authorization_endpoint at another site, %.200q, and not authorization_response_iss_parameter_supported: "+
		"a code of that site could go to another one (mix-up). If both belong together, configure %[1]q as the "+
		"authorization server", p.issuer, hostOf(p.authURL)),
		"This server has you sign in at a site that does not seem to be its own, so Gatehouse does not send you there. "+
			"Ask the operator of the server")
}

// document fetches a JSON object. The error is errNone if there is something else, such as a page for people.
func document(ctx context.Context, by web, from string) (mcp.Raw, error) {
	if u, err := url.Parse(from); err != nil || u.Fragment != "" {
		return nil, errors.New("not a URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	req.Header.Set("Accept", "application/json")
	answer, err := by.Do(req)
	switch {
	case err != nil:
		return nil, err
	case answer.Status/100 == 4:
		return nil, fmt.Errorf("%s: HTTP %d: %w", req.URL.Host, answer.Status, errNone)
	case answer.Status != http.StatusOK:
		return nil, fmt.Errorf("%s: HTTP %d", req.URL.Host, answer.Status)
	}
	doc, err := object(answer.Body)
	if errors.Is(err, errNoObject) {
		err = fmt.Errorf("%s: %w: %w", req.URL.Host, err, errNone)
	}
	return doc, err
}

var errNoObject = errors.New("the answer is not a JSON object")

// object returns a text as a JSON object in which no member is there twice: readers differ in which
// one they take.
func object(text []byte) (mcp.Raw, error) {
	text = []byte(strings.TrimSpace(string(text)))
	doc := mcp.Raw(text)
	if !json.Valid(text) || !doc.IsObject() {
		return nil, errNoObject
	}
	seen, twice := make(map[string]bool), false
	doc.Each(func(name string, _ mcp.Raw) bool {
		twice = seen[name]
		seen[name] = true
		return !twice
	})
	if twice {
		return nil, errors.New("the answer has a member twice")
	}
	return doc, nil
}

// texts returns the strings of a list, as many as make sense.
func texts(list mcp.Raw) (all []string) {
	list.Elements(func(v mcp.Raw) bool {
		if text, ok := v.StringValue(); ok {
			all = append(all, text)
		}
		return len(all) < maxScopes
	})
	return all
}

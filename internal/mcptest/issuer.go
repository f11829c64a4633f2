package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Endpoint is an endpoint of an Issuer: a path under the issuer's URL. EndpointMetadata is
// an exception: its path is inserted before the issuer's own.
type Endpoint string

// The endpoints of an Issuer.
const (
	EndpointOpenID     Endpoint = "/.well-known/openid-configuration"       // OpenID Connect Discovery 1.0
	EndpointMetadata   Endpoint = "/.well-known/oauth-authorization-server" // RFC 8414
	EndpointJWKS       Endpoint = "/jwks"                                   // RFC 7517
	EndpointIntrospect Endpoint = "/introspect"                             // RFC 7662
)

// IssuerOptions are the options of an Issuer. The zero value is valid.
type IssuerOptions struct {
	// Path is the path of the issuer's URL, such as "/tenant"; default none.
	Path string
	// URL makes an issuer with this URL that does not listen. Requests reach it through
	// ServeHTTP, also within a synctest bubble.
	URL string
	// Audience is the default of the claim aud. Default "https://gateway.example/mcp".
	Audience string
	// Alg is the algorithm of the first key. Default ES256.
	Alg string
	// TLS makes an issuer at https, with the certificate of Server.
	TLS bool
}

// Issuer is a scripted authorization server with real keys. It serves metadata, keys and
// introspection, issues any token that the test describes, and fails as the test says. It
// starts with one published key. Close ends it.
type Issuer struct {
	// URL is the issuer identifier: the iss of its tokens.
	URL string
	// Audience is the default of the claim aud.
	Audience string
	// ClientID and ClientSecret authenticate the introspection client.
	ClientID, ClientSecret string

	path string
	http *httptest.Server // nil when the issuer does not listen
	done chan struct{}    // closed by Close, to end requests that hang
	once sync.Once

	mu           Cond   // guards the fields below; wakes when count grows
	keys         []*Key // published, newest last
	made         int    // number of keys and opaque tokens, for their names
	metadata     map[string]any
	jwks         []byte // served instead of keys
	cacheControl string
	faults       map[Endpoint]http.HandlerFunc
	extra        map[string]http.HandlerFunc
	count        map[Endpoint]int
	opaque       map[string]map[string]any
	introspected []string
}

// NewIssuer starts an issuer on a loopback address.
func NewIssuer(opts IssuerOptions) *Issuer {
	i := &Issuer{
		Audience:     "https://gateway.example/mcp",
		ClientID:     "gatehouse",
		ClientSecret: "introspection: 100% secret+",
		path:         strings.TrimSuffix(opts.Path, "/"),
		done:         make(chan struct{}),
		metadata:     map[string]any{},
		faults:       map[Endpoint]http.HandlerFunc{},
		extra:        map[string]http.HandlerFunc{},
		count:        map[Endpoint]int{},
		opaque:       map[string]map[string]any{},
	}
	if opts.Audience != "" {
		i.Audience = opts.Audience
	}
	if i.URL = opts.URL; i.URL == "" {
		if i.http = httptest.NewUnstartedServer(i); opts.TLS {
			i.http.Config.ErrorLog = log.New(io.Discard, "", 0)
			i.http.StartTLS()
		} else {
			i.http.Start()
		}
		i.URL = i.http.URL + opts.Path
	} else if u, err := url.Parse(i.URL); err == nil {
		i.path = strings.TrimSuffix(u.Path, "/")
	}
	alg := opts.Alg
	if alg == "" {
		alg = "ES256"
	}
	i.AddKey(alg)
	return i
}

// Close ends the issuer and every request that hangs. It may be called twice.
func (i *Issuer) Close() {
	i.once.Do(func() { close(i.done) })
	if i.http != nil {
		i.http.Close()
	}
}

// Server is what listens, nil for an issuer that does not.
func (i *Issuer) Server() *httptest.Server { return i.http }

// URLOf returns the URL of an endpoint.
func (i *Issuer) URLOf(e Endpoint) string {
	if e == EndpointMetadata {
		return strings.TrimSuffix(strings.TrimSuffix(i.URL, "/"), i.path) + string(e) + i.path
	}
	return strings.TrimSuffix(i.URL, "/") + string(e)
}

// SetMetadata sets a member of the metadata document to a value that json.Marshal accepts;
// nil removes it. With "issuer" the issuer claims to be another one.
func (i *Issuer) SetMetadata(name string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.metadata[name] = value
}

// SetJWKS serves this text instead of the published keys; nil ends that.
func (i *Issuer) SetJWKS(text []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.jwks = text
}

// SetCacheControl sets the Cache-Control header of metadata and keys.
func (i *Issuer) SetCacheControl(value string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cacheControl = value
}

// Break makes an endpoint answer with fault (see Hang, Status, Body, HTML, Redirect, Huge, Bomb)
// until Mend.
func (i *Issuer) Break(e Endpoint, fault http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults[e] = fault
}

// BreakAll breaks every endpoint.
func (i *Issuer) BreakAll(fault http.HandlerFunc) {
	for _, e := range []Endpoint{EndpointOpenID, EndpointMetadata, EndpointJWKS, EndpointIntrospect} {
		i.Break(e, fault)
	}
}

// Mend ends every fault.
func (i *Issuer) Mend() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.faults)
}

// Handle serves another path under the issuer's URL, such as "/token". The test must add it
// to the metadata if it should be there.
func (i *Issuer) Handle(path string, h http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.extra[path] = h
}

// Fetches returns how often an endpoint was requested, faults included.
func (i *Issuer) Fetches(e Endpoint) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.count[e]
}

// WaitFetches returns when an endpoint was requested n times, or with ctx's error.
func (i *Issuer) WaitFetches(ctx context.Context, e Endpoint, n int) error {
	got := 0
	if err := i.mu.Await(ctx, func() bool { got = i.count[e]; return got >= n }); err != nil {
		return fmt.Errorf("%s was asked %d times, not %d: %w", e, got, n, err)
	}
	return nil
}

// ServeHTTP answers one request.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := Endpoint(strings.TrimPrefix(r.URL.Path, i.path))
	if r.URL.Path == string(EndpointMetadata)+i.path {
		e = EndpointMetadata
	}
	i.mu.Lock()
	fault, extra := i.faults[e], i.extra[string(e)]
	i.count[e]++
	i.mu.Wake()
	cache := i.cacheControl
	i.mu.Unlock()
	if cache != "" {
		w.Header().Set("Cache-Control", cache)
	}
	switch {
	case fault != nil:
		i.fail(w, r, fault)
	case extra != nil:
		extra(w, r)
	case e == EndpointOpenID || e == EndpointMetadata:
		writeJSON(w, i.document())
	case e == EndpointJWKS:
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Write(i.JWKS())
	case e == EndpointIntrospect:
		i.introspect(w, r)
	default:
		http.NotFound(w, r)
	}
}

// document returns the metadata of RFC 8414, which include those of OpenID Connect.
func (i *Issuer) document() map[string]any {
	doc := map[string]any{
		"issuer":                                i.URL,
		"jwks_uri":                              i.URLOf(EndpointJWKS),
		"introspection_endpoint":                i.URLOf(EndpointIntrospect),
		"authorization_endpoint":                i.URL + "/authorize",
		"token_endpoint":                        i.URL + "/token",
		"response_types_supported":              []string{"code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, value := range i.metadata {
		doc[name] = value
		if value == nil {
			delete(doc, name)
		}
	}
	return doc
}

// JWKS returns the key set as it is served now.
func (i *Issuer) JWKS() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.jwks != nil {
		return i.jwks
	}
	keys := []map[string]any{}
	for _, k := range i.keys {
		keys = append(keys, k.jwk())
	}
	text, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err) // only strings and lists of them
	}
	return text
}

// introspect answers introspection requests of the registered client (RFC 7662 §2).
func (i *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok || id != url.QueryEscape(i.ClientID) || secret != url.QueryEscape(i.ClientSecret) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	token := r.PostFormValue("token")
	i.mu.Lock()
	claims, known := i.opaque[token]
	i.introspected = append(i.introspected, token)
	i.mu.Unlock()
	if !known {
		claims = map[string]any{"active": false}
	}
	writeJSON(w, claims)
}

// Introspected returns the tokens that were introspected.
func (i *Issuer) Introspected() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.introspected)
}

// Opaque issues an opaque token. Introspection returns the claims of Token for it, with
// active: true.
func (i *Issuer) Opaque(claims map[string]any) string {
	all := map[string]any{"active": true}
	maps.Copy(all, i.claims(claims))
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.made++
	token := fmt.Sprintf("opaque-%d", i.made)
	i.opaque[token] = all
	return token
}

// Revoke makes an opaque token inactive.
func (i *Issuer) Revoke(token string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.opaque, token)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

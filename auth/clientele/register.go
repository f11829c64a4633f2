package clientele

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	// registeredPrefix begins the id of a client that has registered itself.
	registeredPrefix = "dcr_"
	maxRegistration  = 16 << 10
	// maxSealed bounds what an id holds, in bytes: ids stand in URLs, which are cut at 8 KB and less.
	maxSealed = 1200
)

// How often clients may register: in all, and from one address. A registration keeps nothing here, but
// costs some work.
const (
	atOnce        = 600
	every         = 100 * time.Millisecond
	atOnceOfOne   = 60
	everyOfOne    = time.Second
	sayRetryAfter = "30"
)

// registration is what the id of a registered client holds, sealed.
type registration struct {
	Redirects []string `json:"r"`
	Name      string   `json:"n,omitempty"`
	URI       string   `json:"u,omitempty"`
	Method    string   `json:"m,omitempty"` // "" for MethodNone
	Secret    []byte   `json:"s,omitempty"` // its digest
	Expires   int64    `json:"e"`           // in seconds
}

// registered returns the client that an id holds. Nothing is kept of it, so any replica knows it, and
// none does when the key has changed.
func (r *Registry) registered(id string) (Client, error) {
	if !r.Registers() {
		return Client{}, refused("Clients cannot register themselves here any more.")
	}
	again := refused("The registration of this client has ended, or is of another gateway. Have the client register again: remove the gateway from it, and add it anew.")
	plain, err := r.deps.Key.Open(strings.TrimPrefix(id, registeredPrefix), r.deps.Issuer)
	if err != nil {
		return Client{}, again
	}
	var reg registration
	if err := json.Unmarshal(plain, &reg); err != nil || time.Now().Unix() >= reg.Expires {
		return Client{}, again
	}
	for _, uri := range reg.Redirects {
		if err := r.cfg.mayRegister(uri); err != nil {
			return Client{}, refused("The redirect URI %s of this client %v.", uri, err)
		}
	}
	c := Client{ID: id, Kind: KindRegistered, Name: reg.Name, URI: reg.URI, Redirects: reg.Redirects, Method: MethodNone,
		Expires: time.Unix(reg.Expires, 0)}
	if c.Name == "" {
		c.Name, _ = Place(c.Redirects[0])
	}
	if reg.Method != "" {
		c.Method = reg.Method
		copy(c.secret[:], reg.Secret)
	}
	return c, nil
}

// Errors of registration (RFC 7591 §3.2.2).
const (
	codeRedirect = "invalid_redirect_uri"
	codeMetadata = "invalid_client_metadata"
	codeBusy     = "temporarily_unavailable"
)

// badRegistration is a registration that is refused.
type badRegistration struct{ code, text string }

// ServeRegister answers requests to the registration endpoint (RFC 7591 §3), those of web pages, too.
func (r *Registry) ServeRegister(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*") // no cookies are read here
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	switch {
	case !r.Registers():
		http.NotFound(w, req)
		return
	case req.Method == http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", "POST")
		h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return
	case req.Method != http.MethodPost:
		h.Set("Allow", "POST, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	from := mcp.OriginFrom(req.Context()).Address
	if !r.pace.allows(r.pace.by(req.Context())) {
		h.Set("Retry-After", sayRetryAfter)
		writeJSON(w, http.StatusTooManyRequests, map[string]any{"error": codeBusy,
			"error_description": "too many registrations: try again in " + sayRetryAfter + " seconds"})
		return
	}
	answer, bad := r.register(req)
	if bad != nil {
		r.deps.Log.Info("registration of a client refused", "from", from, "error", bad.text)
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": bad.code, "error_description": bad.text})
		return
	}
	r.deps.Log.Info("a client has registered itself", "from", from, "client", ShortID(fmt.Sprint(answer["client_id"])),
		"name", answer["client_name"], "redirects", answer["redirect_uris"])
	writeJSON(w, http.StatusCreated, answer)
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // the client may have gone
}

// register makes a registration and returns the answer: what was registered, which may be less than
// what was asked for.
func (r *Registry) register(req *http.Request) (answer map[string]any, bad *badRegistration) {
	if !isJSON(req.Header.Get("Content-Type")) {
		return nil, &badRegistration{codeMetadata, "the request has to be application/json"}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRegistration+1))
	switch {
	case err != nil:
		return nil, &badRegistration{codeMetadata, "the request could not be read"}
	case len(body) > maxRegistration:
		return nil, &badRegistration{codeMetadata, fmt.Sprintf("the request is longer than %d bytes", maxRegistration)}
	}
	m, err := parseMetadata(body)
	if err != nil {
		return nil, &badRegistration{codeMetadata, "the request " + err.Error()}
	}
	uris, err := m.redirects()
	if err != nil {
		return nil, &badRegistration{codeRedirect, "the registration " + err.Error()}
	}
	for _, uri := range uris {
		if err := r.cfg.mayRegister(uri); err != nil {
			return nil, &badRegistration{codeRedirect, fmt.Sprintf("the redirect URI %s %v", uri, err)}
		}
	}
	if err := m.flow(); err != nil {
		return nil, &badRegistration{codeMetadata, "the registration " + err.Error()}
	}
	now := time.Now()
	reg := registration{Redirects: uris, Expires: now.Add(r.cfg.Registration.DCR.Lifetime).Unix()}
	if reg.Name, reg.URI, err = m.name(); err != nil {
		return nil, &badRegistration{codeMetadata, "the registration " + err.Error()}
	}
	method, err := m.registeredMethod()
	if err != nil {
		return nil, &badRegistration{codeMetadata, "the registration " + err.Error()}
	}
	answer = map[string]any{
		"redirect_uris": uris, "client_id_issued_at": now.Unix(), "token_endpoint_auth_method": method,
		"grant_types": m.grants(), "response_types": []string{"code"},
	}
	if method != MethodNone {
		secret := rand.Text() + rand.Text()
		digest := sha256.Sum256([]byte(secret))
		reg.Method, reg.Secret = method, digest[:]
		answer["client_secret"], answer["client_secret_expires_at"] = secret, reg.Expires
	}
	if reg.Name != "" {
		answer["client_name"] = reg.Name
	}
	if reg.URI != "" {
		answer["client_uri"] = reg.URI
	}
	plain, err := json.Marshal(reg)
	if err != nil || len(plain) > maxSealed {
		return nil, &badRegistration{codeMetadata,
			fmt.Sprintf("redirect_uris, client_name and client_uri have more than about %d bytes together", maxSealed)}
	}
	answer["client_id"] = registeredPrefix + r.deps.Key.Seal(plain, r.deps.Issuer)
	return answer, nil
}

// registeredMethod returns how a client that registers proves who it is; client_secret_basic if it
// does not say (RFC 7591 §2).
func (m metadata) registeredMethod() (string, error) {
	method, err := m.text("token_endpoint_auth_method")
	switch {
	case err != nil:
		return "", err
	case method == "":
		return MethodBasic, nil
	case method != MethodNone && method != MethodBasic && method != MethodPost:
		return "", errors.New("has a token_endpoint_auth_method other than none, client_secret_basic and client_secret_post")
	}
	return method, nil
}

// grants returns the grants that were asked for and exist; others, such as jwt-bearer, are left out.
func (m metadata) grants() []string {
	grants := []string{"authorization_code"}
	if asked, err := m.list("grant_types"); err == nil && slices.Contains(asked, "refresh_token") {
		grants = append(grants, "refresh_token")
	}
	return grants
}

package issuer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// Deps are the dependencies of an Issuer; all are optional.
type Deps struct {
	// Log receives sign-ins and refusals, never codes or tokens.
	Log *slog.Logger
	// Fetch gets the body of an https URL that a stranger chose: a client's metadata
	// document. It must not follow redirects or connect to addresses that are not public.
	// If it is nil, such clients are refused, and the metadata does not offer documents.
	Fetch func(ctx context.Context, url string) ([]byte, error)
}

// Issuer is the http.Handler of an authorization server. Make one with New.
type Issuer struct {
	cfg       Config
	host      string // of cfg.URL
	log       *slog.Logger
	mux       *http.ServeMux
	keys      *keys
	grants    *grants
	documents *documents
	csrfKey   []byte
	pages     *pages
}

// New makes an issuer with a fresh key. Its sign-ins and tokens end with it.
func New(cfg Config, deps Deps) (*Issuer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("development issuer: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	s := &Issuer{cfg: cfg.withDefaults(), host: u.Host, log: deps.Log, grants: newGrants(), csrfKey: make([]byte, 32)}
	rand.Read(s.csrfKey)
	if s.keys, err = newKeys(); err != nil {
		return nil, err
	}
	if s.pages, err = newPages(); err != nil {
		return nil, err
	}
	known, err := lru.New[string, document](maxDocuments)
	if err != nil {
		return nil, err
	}
	s.documents = &documents{fetch: deps.Fetch, known: known, slots: make(chan struct{}, maxFetches)}
	s.route()
	s.log.Warn("development issuer: no passwords, for this machine only", "issuer", cfg.URL)
	return s, nil
}

func (s *Issuer) route() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /{$}", s.about)
	s.mux.HandleFunc("GET /style.css", s.pages.style)
	s.mux.HandleFunc("GET "+authorizePath, s.authorize)
	s.mux.HandleFunc("POST "+authorizePath, s.decide)
	s.open(http.MethodGet, "/.well-known/oauth-authorization-server", s.metadata)
	s.open(http.MethodGet, "/.well-known/openid-configuration", s.metadata)
	s.open(http.MethodGet, jwksPath, s.jwks)
	s.open(http.MethodPost, tokenPath, s.token)
	s.open(http.MethodPost, registerPath, s.register)
	s.open(http.MethodPost, revokePath, s.revoke)
	s.open(http.MethodPost, introspectPath, s.introspect)
}

// open adds a path that scripts of any web page may use, such as the Inspector's: no such
// path uses cookies, and every request proves by its content that it may do what it asks.
func (s *Issuer) open(method, path string, handle http.HandlerFunc) {
	s.mux.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		handle(w, r)
	})
	s.mux.HandleFunc("OPTIONS "+path, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", method)
		h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Mcp-Protocol-Version")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	})
}

// ServeHTTP answers requests from this machine that name this issuer. It checks the host
// name because web pages can make their own name resolve to a loopback address (DNS
// rebinding).
func (s *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
		http.Error(w, "this issuer is for development and serves its own machine only", http.StatusForbidden)
		return
	}
	if r.Host != s.host {
		http.Error(w, "this is the development issuer "+s.cfg.URL, http.StatusMisdirectedRequest)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// URL returns the issuer identifier.
func (s *Issuer) URL() string { return s.cfg.URL }

// Rotate replaces the signing key. The previous key stays published until the next
// rotation; older ones are withdrawn.
func (s *Issuer) Rotate() error { return s.keys.rotate() }

// ErrNoUser is returned for a subject that Config.Users does not have.
var ErrNoUser = errors.New("development issuer: no such user")

// Token makes an access token for a user without a sign-in, for any audience.
func (s *Issuer) Token(user, audience string, scopes ...string) (string, error) {
	u, ok := s.user(user)
	if !ok {
		return "", ErrNoUser
	}
	return s.sign(s.userClaims(u, grant{client: "token", resource: audience, scopes: scopes}), s.cfg.TokenLifetime)
}

// Identity is the subject of a token.
type Identity struct {
	Subject  string
	ClientID string
	Scopes   []string
	Expires  time.Time
}

// Verify checks a token of this issuer for the server audience. It is for servers in the
// same process.
func (s *Issuer) Verify(token, audience string) (Identity, error) {
	c, err := s.verify(token, audience)
	if err != nil {
		return Identity{}, fmt.Errorf("development issuer: token: %w", err)
	}
	return Identity{
		Subject: c.Subject, ClientID: c.ClientID, Scopes: strings.Fields(c.Scope), Expires: time.Unix(c.Expires, 0),
	}, nil
}

// shown returns the users on the pages.
func (s *Issuer) shown() []User {
	return slices.DeleteFunc(slices.Clone(s.cfg.Users), func(u User) bool { return u.About == "" })
}

func (s *Issuer) user(subject string) (User, bool) {
	for _, u := range s.cfg.Users {
		if u.Subject == subject {
			return u, true
		}
	}
	return User{}, false
}

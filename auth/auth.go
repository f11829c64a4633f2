package auth

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxVerified = 10_000 // cached tokens
	verifiedFor = time.Minute
)

// Deps are the dependencies of an Auth.
type Deps struct {
	// PublicURL is the endpoint as clients write it: the resource identifier and the default
	// audience. Required in mode oauth.
	PublicURL string
	// Views are the URLs of further endpoints by the names of their views. A token for
	// PublicURL is good at all of them, a token for one of them only there.
	Views map[string]string
	// Log receives messages for the operator. Nil for none.
	Log *slog.Logger
	// NewClient makes the HTTP client for one issuer; trust has the URLs that the
	// configuration gives for it. Nil for a client of safehttp.
	NewClient func(trust []string) (Client, error)
	// Metrics count tokens; nil for none.
	Metrics *Metrics
	// Proofs are the proofs of DPoP that were used, of all replicas; nil for those of this Auth.
	Proofs *expiring.Store
	// Judged receives each token that was verified again, and each request that was refused; may be
	// nil. It must not block.
	Judged func(Judgement)
	// Origin returns where a request comes from, for Caller.From; may be nil.
	Origin func(*http.Request) mcp.Origin
	// Local is the gateway's own authorization server, if Config has one. Without it no token of
	// that server is accepted: nil where no requests are served.
	Local Local

	at *atomic.Pointer[endpoints] // of the Auth
}

// Judgement is the result of checking a token.
type Judgement struct {
	// Caller is the caller that the token proves; if it was refused, only From is known.
	Caller mcp.Caller
	// View is the view with the endpoint where the token arrived.
	View string
	// Agent is the client of a refused token, by its User-Agent; "" if it does not say.
	Agent string
	// Status is the HTTP status of the refusal, 0 for none. Reason says why, without any part of
	// the request, and Name is its stable name.
	Status int
	Reason string
	Name   failure.Name
}

// Auth identifies callers.
type Auth struct {
	cfg       Config
	log       *slog.Logger
	asks      bool               // callers have to prove who they are
	nobody    mcp.Caller         // every caller in mode none
	list      []*issuer          // in the order of the configuration
	issuers   map[string]*issuer // by mcp.Identifier of their URLs
	opaque    *introspector      // nil without introspection
	keyring   *keyring
	local     *local // nil without an authorization server of the gateway itself
	proofs    *proofs
	exact     []string // claims with names that must not be written in other case
	cache     *lru.Cache[digest, *verified]
	publicURL string
	at        *atomic.Pointer[endpoints]
	metrics   *Metrics
	judged    func(Judgement)
	origin    func(*http.Request) mcp.Origin
	aside     bool // a token is examined, not used: nothing is reported, counted or kept
}

// New makes an Auth. It does no I/O; Run does.
func New(cfg Config, deps Deps) (*Auth, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	if err := cfg.CheckPublicURL(deps.PublicURL); err != nil {
		return nil, fmt.Errorf("public_url: %w", err)
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	cfg = cfg.WithDefaults(deps.PublicURL)
	deps.at = new(atomic.Pointer[endpoints])
	a := &Auth{
		cfg:     cfg,
		log:     deps.Log,
		asks:    cfg.Identifies(),
		nobody:  mcp.NewCaller(mcp.Caller{}),
		issuers: make(map[string]*issuer),
		proofs:  newProofs(cfg, deps.PublicURL, deps.Proofs),
		keyring: &keyring{required: cfg.RequiredScopes, implied: cfg.ImpliedScopes},
		metrics: deps.Metrics,
		judged:  deps.Judged,
		origin:  deps.Origin,

		publicURL: deps.PublicURL, at: deps.at,
	}
	if a.origin == nil {
		a.origin = func(*http.Request) mcp.Origin { return mcp.Origin{} }
	}
	if a.judged == nil {
		a.judged = func(Judgement) {}
	}
	a.at.Store(&endpoints{})
	if !a.asks {
		return a, nil
	}
	a.keyring.set(cfg.Keys)
	a.local = newLocal(cfg, deps)
	var err error
	if a.cache, err = lru.New[digest, *verified](maxVerified); err != nil {
		return nil, err
	}
	a.SetViews(deps.Views)
	for i, c := range cfg.Issuers {
		iss, err := newIssuer(cfg, c, deps)
		if err != nil {
			return nil, fmt.Errorf("auth: issuers[%d]: %w", i, err)
		}
		a.list = append(a.list, iss)
		a.issuers[mcp.Identifier(c.URL)] = iss
		for _, name := range iss.exact {
			if !slices.Contains(a.exact, name) {
				a.exact = append(a.exact, name)
			}
		}
		if c.Introspection == nil {
			continue
		}
		if a.opaque, err = newIntrospector(iss, deps.Log); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// endpoints are the URLs for clients. A reload changes them.
type endpoints struct {
	places    map[string]place   // by the name of the view, "" for the endpoint
	documents map[string]mcp.Raw // the protected resource metadata, by their paths
	views     []string           // the URLs of views
}

// SetViews replaces the views, by their names. Tokens are verified again, since one may be for a view.
func (a *Auth) SetViews(urls map[string]string) {
	if !a.asks {
		return
	}
	now := &endpoints{places: map[string]place{"": newPlace(a.cfg, a.publicURL)}, views: slices.Collect(maps.Values(urls))}
	for view, url := range urls {
		now.places[view] = newPlace(a.cfg, url)
	}
	now.documents = documents(a.cfg, now.places)
	a.at.Store(now)
	a.cache.Purge()
}

// place is an endpoint as a protected resource.
type place struct {
	metadataDocument
	resource  string // its URL
	challenge challenge
}

func newPlace(cfg Config, url string) place {
	document := newMetadata(cfg, url)
	return place{document, url, newChallenge(cfg, document.url)}
}

// Require passes on requests of known callers and refuses all others. The mcp.Caller is in their
// context, and the token is taken out, so that nothing below can pass it on. Requests that never
// have a token, such as a browser's preflight, have to be answered above it.
func (a *Auth) Require(next http.Handler) http.Handler { return a.RequireAt("", next) }

// RequireAt is Require for the endpoint of a view, which becomes Caller.View.
func (a *Auth) RequireAt(view string, next http.Handler) http.Handler {
	at := a.at.Load().places[view]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ref := a.nobody, (*refusal)(nil)
		if a.asks {
			caller, ref = a.judge(r, view)
		} else {
			caller.From = a.origin(r)
		}
		if ref != nil {
			at.challenge.refuse(w, r, ref)
			return
		}
		caller.View = view
		next.ServeHTTP(w, stripped(r, mcp.WithCaller(r.Context(), caller)))
	})
}

// judge identifies the caller of a request to the endpoint of a view, and reports a refusal.
func (a *Auth) judge(r *http.Request, view string) (mcp.Caller, *refusal) {
	from := a.origin(r)
	caller, ref := a.authenticate(r, view, from)
	if ref == nil {
		return caller, nil
	}
	a.judged(Judgement{Caller: mcp.Caller{From: from}, View: view, Agent: agentOf(r), Status: ref.status, Reason: ref.text,
		Name: ref.name})
	a.metrics.refuse(ref)
	a.log.DebugContext(r.Context(), "request refused", ref.attrs()...)
	return mcp.Caller{}, ref
}

// RefusedError is an error of Identify that the caller may read.
type RefusedError struct {
	Status int // of HTTP
	Name   failure.Name
	Text   string
}

// Error returns the text.
func (e *RefusedError) Error() string { return e.Text }

// SetKeys replaces the API keys.
func (a *Auth) SetKeys(keys apikey.Config) { a.keyring.set(keys) }

// Identify returns the person who has the token of a request that is not for an endpoint. The token
// has to be as for the gateway's own endpoint, and no API key. In mode none there is no one to
// identify. The error is a *RefusedError.
func (a *Auth) Identify(r *http.Request) (mcp.Caller, error) {
	if !a.asks {
		return mcp.Caller{}, &RefusedError{http.StatusUnauthorized, failure.TokenInvalid,
			"there are no issuers of tokens: see auth.mode"}
	}
	if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "dpop") {
		return mcp.Caller{}, &RefusedError{http.StatusUnauthorized, failure.TokenInvalid,
			"a token with a proof cannot be used here: proofs are for endpoints of MCP"}
	}
	caller, ref := a.judge(r, "")
	if ref != nil {
		return mcp.Caller{}, &RefusedError{ref.status, ref.name, ref.text}
	}
	if caller.Issuer == mcp.KeyIssuer {
		return mcp.Caller{}, &RefusedError{http.StatusForbidden, failure.UserRefused,
			"an API key is for programs, and for endpoints of MCP: sign in"}
	}
	caller.Token = ""
	return caller, nil
}

// Run keeps the issuers' keys fresh until ctx ends, and waits for its goroutines. It has to
// run while requests are served. A failing issuer does not end it.
func (a *Auth) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, iss := range a.list {
		all.Go(func() { iss.keys.run(ctx) })
	}
	<-ctx.Done()
	all.Wait()
	for _, iss := range a.list {
		iss.client.Close()
	}
	return nil
}

// stripped is the request with another context and without the credentials for the gateway.
func stripped(r *http.Request, ctx context.Context) *http.Request {
	out := r.WithContext(ctx)
	if _, has := r.Header["Authorization"]; !has {
		return out
	}
	out.Header = make(http.Header, len(r.Header))
	for name, values := range r.Header {
		if name != "Authorization" && name != "Dpop" {
			out.Header[name] = values
		}
	}
	return out
}

package outbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// maxUsers is how many exchanged tokens are kept.
	maxUsers = 4096
	// betweenSaid is the least time between two log lines about refusals of the upstream.
	betweenSaid = time.Minute
)

// Deps are the dependencies of a Credentials.
type Deps struct {
	// Log is required.
	Log *slog.Logger
	// Upstream is the upstream's name, URL its endpoint.
	Upstream string
	URL      string
	// Route says how the upstream, and so its token endpoint, is reached.
	Route egress.Config
	// Vault has the accounts of users; required for user_oauth.
	Vault *vault.Vault
	// OneUser says that all requests are those of one user, who has no name.
	OneUser bool
	// Fetched receives each request for a token; it may be nil. It must not block.
	Fetched func(Fetch)
}

// Fetch is one request for a token, of the gateway's own or in the name of a user.
type Fetch struct {
	Upstream     string
	Issuer, User string // "" for the gateway's own
	Err          error  // what callers read; nil for a good token
}

// Credentials authenticates the requests to one upstream. Its methods may be called
// concurrently.
type Credentials struct {
	cfg      Config
	log      *slog.Logger
	resource string
	header   string // the canonical name, "" for type none
	fixed    string // its value, when it does not change
	client   *safehttp.Client
	accounts *accounts // nil unless users have accounts of their own
	endpoint *endpoint // nil when there is no token to get
	granting *granting // nil unless assertions are traded for tokens (id_jag)
	machine  *source   // nil without a token of the gateway's own
	stamps   atomic.Uint64
	fetched  func(Fetch)
	upstream string

	base context.Context // of what is fetched; ends with Close
	stop context.CancelFunc

	mu     sync.Mutex // guards the fields below
	users  *lru.Cache[userKey, *source]
	said   time.Time
	closed bool
	wg     sync.WaitGroup // one for each fetch; Close waits
}

// New makes a Credentials. It does no I/O.
func New(cfg Config, deps Deps) (*Credentials, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("auth of upstream %q: %w", deps.Upstream, err)
	}
	if deps.Log == nil {
		return nil, fmt.Errorf("auth of upstream %q: no log was given", deps.Upstream)
	}
	c := &Credentials{cfg: cfg, log: deps.Log.With("upstream", deps.Upstream), header: cfg.HeaderName(),
		resource: deps.URL, upstream: deps.Upstream, fetched: deps.Fetched}
	if cfg.Resource != nil {
		c.resource = *cfg.Resource
	}
	c.base, c.stop = context.WithCancel(context.Background())
	switch cfg.Type {
	case "", TypeNone:
		return c, nil
	case TypeHeader:
		c.fixed = string(cfg.Token)
		return c, nil
	case TypeBearer:
		c.fixed = scheme + string(cfg.Token)
		return c, nil
	case TypeUserOAuth:
		if deps.Vault == nil {
			return nil, fmt.Errorf("auth of upstream %q: no vault was given", deps.Upstream)
		}
		c.accounts = &accounts{vault: deps.Vault, upstream: deps.Upstream, url: deps.URL, oneUser: deps.OneUser}
		return c, nil
	}
	var err error
	c.client, err = safehttp.New(safehttp.Options{Trust: []string{cfg.TokenURL}, Timeout: askTimeout, MaxBytes: maxAnswer,
		Route: deps.Route})
	if err != nil {
		return nil, err
	}
	if c.endpoint, err = newEndpoint(cfg, c.client.Do); err != nil {
		return nil, err
	}
	if cfg.Type == TypeIDJAG {
		if c.granting, err = newGranting(cfg, deps.Route); err != nil {
			return nil, err
		}
		c.endpoint.wants = notAToken
	}
	if cfg.exchanges() {
		c.users, err = lru.New[userKey, *source](maxUsers)
		return c, err
	}
	c.machine = &source{owner: c}
	c.machine.ask = c.telling(Fetch{}, func(ctx context.Context) (answer, error) { return c.ask(ctx, c.machineForm()) })
	return c, nil
}

// PerUser reports whether each user has a credential of its own.
func (c *Credentials) PerUser() bool { return c.cfg.PerUser() }

// Authorize sets the header that authenticates a request made for this caller. The
// stamp is for Refused. Errors are an *Error.
func (c *Credentials) Authorize(ctx context.Context, caller mcp.Caller, h http.Header) (stamp uint64, err error) {
	if c.accounts != nil {
		token, stamp, err := c.accounts.token(ctx, caller)
		if err != nil {
			return 0, err
		}
		h[c.header] = []string{scheme + token}
		return stamp, nil
	}
	if c.endpoint == nil {
		if c.header != "" {
			h[c.header] = []string{c.fixed}
		}
		return 0, nil
	}
	src, err := c.sourceFor(caller)
	if err != nil {
		return 0, err
	}
	tok, err := src.get(ctx)
	if err != nil {
		return 0, err
	}
	h[c.header] = []string{tok.value}
	return tok.stamp, nil
}

// Refused notes that the upstream answered 401 or 403 with this challenge (WWW-Authenticate).
// Authorize gave the stamp for the request. It reports whether the request should be made once
// more: there is another credential. The error is an *Error if the answer is for the user: who has
// to sign in at the upstream.
func (c *Credentials) Refused(ctx context.Context, caller mcp.Caller, stamp uint64, status int,
	challenge string) (again bool, err error) {
	if c.accounts != nil {
		c.say(status, printable(c.accounts.vault.Hide(vault.OwnerOf(caller), c.upstream, challenge)))
		return c.accounts.refused(ctx, caller, stamp, status, challenge)
	}
	return c.refused(caller, stamp, status, challenge), nil
}

func (c *Credentials) refused(caller mcp.Caller, stamp uint64, status int, challenge string) bool {
	if c.endpoint == nil {
		c.say(status, printable(challenge, strings.TrimPrefix(c.fixed, scheme)))
		return false
	}
	src, err := c.sourceFor(caller)
	if err != nil {
		return false
	}
	c.say(status, printable(challenge, src.current()))
	return (status == http.StatusUnauthorized || strings.Contains(challenge, "invalid_token")) && src.refused(stamp)
}

// say logs a refusal, now and then: what the upstream wants is for the operator alone.
func (c *Credentials) say(status int, challenge string) {
	c.mu.Lock()
	now := time.Now()
	say := c.said.IsZero() || now.Sub(c.said) >= betweenSaid
	if say {
		c.said = now
	}
	c.mu.Unlock()
	if say {
		c.log.Warn("upstream refuses our credential", failure.UpstreamLogin.Attr(), "status", status, "challenge", challenge)
	}
}

// Close ends what is being fetched. It may be called twice.
func (c *Credentials) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
	if c.client != nil {
		c.client.Close()
	}
	if c.granting != nil {
		c.granting.client.Close()
	}
}

// spawn runs f on a goroutine that Close waits for; false when it is too late.
func (c *Credentials) spawn(f func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.wg.Go(func() { f(c.base) })
	}
	return !c.closed
}

// paused returns the error of a recent failure of an endpoint that a token needs, nil if all may be
// asked.
func (c *Credentials) paused(now time.Time) error {
	if err := c.endpoint.paused(now); err != nil || c.granting == nil {
		return err
	}
	return c.granting.endpoint.paused(now)
}

// machineForm asks for a token of the gateway's own (RFC 6749 §4.4.2).
func (c *Credentials) machineForm() url.Values {
	return c.target(url.Values{"grant_type": {"client_credentials"}})
}

// target adds what the token is for (RFC 8707 §2, RFC 8693 §2.1).
func (c *Credentials) target(form url.Values) url.Values {
	set := func(name, value string) {
		if value != "" {
			form.Set(name, value)
		}
	}
	set("resource", c.resource)
	set("audience", c.cfg.Audience)
	set("scope", strings.Join(c.cfg.Scopes, " "))
	return form
}

// telling returns ask with a report of its outcome.
func (c *Credentials) telling(of Fetch, ask func(context.Context) (answer, error)) func(context.Context) (answer,
	error) {
	return func(ctx context.Context) (answer, error) {
		a, err := ask(ctx)
		if c.fetched != nil && ctx.Err() == nil {
			c.fetched(Fetch{Upstream: c.upstream, Issuer: of.Issuer, User: of.User, Err: err})
		}
		return a, err
	}
}

// ask asks the endpoint, and logs what the callers do not read.
func (c *Credentials) ask(ctx context.Context, form url.Values) (answer, error) {
	return c.askAt(ctx, c.endpoint, form)
}

func (c *Credentials) askAt(ctx context.Context, at *endpoint, form url.Values) (answer, error) {
	a, err := at.ask(ctx, form)
	if failed, ok := errors.AsType[*Error](err); ok && c.base.Err() == nil {
		c.log.Warn("no token for upstream", failure.TokenRefused.Attr(), "reason", failed.Why, "cause", failed.cause)
	}
	return a, err
}

package vault

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
)

const (
	// Room has the accounts in their base, sealed by the keys of the vault.
	Room = "accounts"
	// mostKept bounds the accounts in memory where there is no Redis.
	mostKept = 100_000
	// mostKnown bounds the accounts that this process remembers.
	mostKnown = 10_000
	// mostClients bounds the HTTP clients, one for each set of trusted URLs.
	mostClients = 64
	// maxToken bounds an access token or a refresh token, in bytes.
	maxToken = 16 << 10
	// lastRefresh is how long a refresh may still take at the end: its token may be used up already.
	lastRefresh = 5 * time.Second
	// unused is how long an unused grant is kept.
	unused = 180 * 24 * time.Hour
)

// Values of Grant.ClientAuth, as in the registry of RFC 7591.
const (
	AuthBasic = "client_secret_basic"
	AuthPost  = "client_secret_post"
	AuthNone  = "none"
)

// Owner is a user of the gateway: the issuer and the subject of their tokens.
type Owner struct{ Issuer, User string }

// OwnerOf returns the owner of the accounts that a caller uses.
func OwnerOf(c mcp.Caller) Owner { return Owner{c.Issuer, c.Subject} }

// Grant is what an authorization server gave for one user and one server.
type Grant struct {
	AccessToken  string
	RefreshToken string // "" for none
	// Expires is when the access token ends; zero if that is unknown.
	Expires time.Time
	// Scope is what was granted, separated by spaces; "" if that is unknown.
	Scope string
	// AuthServer is the identifier of the authorization server. TokenURL is needed with a
	// RefreshToken; RevokeURL is "" if it has none.
	AuthServer, TokenURL, RevokeURL string
	// ClientID is the gateway's client id there, ClientSecret its secret, "" for a public client,
	// and ClientAuth how it is sent: AuthBasic, AuthPost or AuthNone. Default AuthBasic with a
	// secret, else AuthNone.
	ClientID     string
	ClientSecret mcp.Secret `json:"-"`
	ClientAuth   string
	// Registered says that the gateway has registered itself as ClientID: an authorization server
	// that does not know it any more gets another registration when the user signs in again.
	Registered bool `json:",omitempty"`
	// Resource is sent when the token is refreshed (RFC 8707); "" leaves it out.
	Resource string
	// URL is the server's endpoint: the token is for it alone. A server of the same name at
	// another URL does not get the token.
	URL string
}

// String hides the tokens.
func (g Grant) String() string { return "<grant>" }

// LogValue hides the tokens.
func (g Grant) LogValue() slog.Value { return slog.StringValue(g.String()) }

func (g Grant) validate() error {
	switch {
	case g.AccessToken == "" || len(g.AccessToken) > maxToken || len(g.RefreshToken) > maxToken:
		return fmt.Errorf("a grant needs an access token, and its tokens have at most %d bytes", maxToken)
	case g.URL == "":
		return errors.New("a grant needs the URL of the server that it is for")
	case g.RefreshToken != "" && (g.TokenURL == "" || g.ClientID == ""):
		return errors.New("a grant with a refresh token needs token endpoint and client id")
	}
	for _, raw := range []string{g.TokenURL, g.RevokeURL} {
		if _, err := url.Parse(raw); err != nil {
			return errors.New("an endpoint of a grant is no URL") // it may hold credentials
		}
	}
	return nil
}

// Deps are the dependencies of a Vault.
type Deps struct {
	// Log is required.
	Log *slog.Logger
	// Base has the accounts.
	Base expiring.Base
	// Reach returns the URLs that the operator configured for a server, and how they are reached: its
	// authorization server may be at any address there. Nil for none; everything else has to be public.
	Reach func(server string) ([]string, egress.Config)
	// URL returns the current endpoint of a server; nil where states are not shown.
	URL func(server string) string
	// Told receives what becomes of accounts; it may be nil. It must not block.
	Told func(Event)
	// Metrics may be nil.
	Metrics *Metrics
}

// Event is a change of an account.
type Event struct {
	Server string
	Owner  Owner
	// What is one of the constants below.
	What string
	Err  error // of Refused
}

// Values of Event.What.
const (
	SignedIn  = "signed in"
	SignedOut = "signed out"
	Refreshed = "obtained"
	Refused   = "refused"
	Ended     = "needs sign-in"
)

// Vault keeps the accounts of users. It is safe for concurrent use.
type Vault struct {
	deps    Deps
	sealer  *sealer
	grants  *expiring.Store // sealed by sealer
	locks   *expiring.Store // who refreshes
	uses    *expiring.Store // when they were last used
	metrics *Metrics

	base context.Context // of what runs without a caller; ends with Close
	stop context.CancelFunc

	mu      sync.Mutex // guards the fields below
	known   *lru.Cache[place, *account]
	clients *lru.Cache[reached, *safehttp.Client]
	turns   *lru.Cache[string, chan struct{}] // by token endpoint; each holds one for each request
	closed  bool
	wg      sync.WaitGroup // one for each goroutine; Close waits
}

// place names an account: its user and its server.
type place struct {
	owner  Owner
	server string
}

// name is that of an account in the store.
func (p place) name() string { return p.owner.Issuer + "\x00" + p.owner.User + "\x00" + p.server }

// Opens reports whether the keys of the vault open a value of Room, of any account. The error is that of a Transit,
// which is asked.
func (v *Vault) Opens(ctx context.Context, value []byte) (bool, error) {
	wrapped, _, found := bytes.Cut(value, []byte{'\n'})
	if !found {
		return false, nil
	}
	_, err := v.sealer.unwrap(ctx, string(wrapped))
	if errors.Is(err, errUnreadable) {
		return false, nil
	}
	return err == nil, err
}

// New makes a Vault. It does no I/O.
func New(cfg Config, deps Deps) (*Vault, error) {
	if deps.Log == nil {
		return nil, errors.New("vault: no log was given")
	}
	sealer, err := newSealer(cfg)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	v := &Vault{
		deps: deps, sealer: sealer, metrics: cmp.Or(deps.Metrics, NewMetrics(nil)),
		grants: expiring.New(deps.Base, nil, Room, mostKept),
		locks:  expiring.New(deps.Base.Brief(), nil, "account-locks", mostKept),
		uses:   expiring.New(deps.Base, nil, "account-uses", mostKept),
	}
	v.base, v.stop = context.WithCancel(context.Background())
	if v.known, err = lru.New[place, *account](mostKnown); err != nil {
		return nil, err
	}
	if v.turns, err = lru.New[string, chan struct{}](mostClients); err != nil {
		return nil, err
	}
	v.clients, err = lru.NewWithEvict(mostClients, func(_ reached, c *safehttp.Client) { c.Close() })
	return v, err
}

// Close waits for refreshes, for lastRefresh at most, and until their tokens are kept. It begins nothing else; tokens
// that are known can still be used. It may be called twice.
func (v *Vault) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	defer time.AfterFunc(lastRefresh, v.stop).Stop()
	v.wg.Wait()
	v.stop()
	v.sealer.close()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clients.Purge()
}

// Keep keeps a grant, in place of the one that was there: the user has signed in.
func (v *Vault) Keep(ctx context.Context, owner Owner, server string, g Grant) error {
	if err := g.validate(); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	at, now := place{owner, server}, time.Now()
	r := record{ID: rand.Text(), Grant: g, Secret: string(g.ClientSecret), Since: now}
	r.issued(now)
	raw, err := v.seal(ctx, at, r)
	if err == nil {
		err = v.grants.Put(ctx, at.name(), raw, r.life())
	}
	if err != nil {
		return fmt.Errorf("vault: keeping an account: %w", err)
	}
	v.account(at).publish(newKnown(raw, r), now)
	v.tell(at, SignedIn, nil)
	return nil
}

// Forget forgets an account, and has its authorization server revoke the tokens (RFC 7009) as far
// as that answers: no call waits for it. It is no error if there is no account.
func (v *Vault) Forget(ctx context.Context, owner Owner, server string) error {
	at := place{owner, server}
	a := v.account(at)
	k, lost := v.read(ctx, a)
	if err := v.grants.Drop(ctx, at.name()); err != nil {
		return fmt.Errorf("vault: forgetting an account: %w", err)
	}
	a.forget()
	if err := v.uses.Drop(ctx, at.name()); err != nil {
		v.deps.Log.Debug("the last use of an account was not forgotten: it ends by itself", "error", err)
	}
	if k == nil && lost == nil {
		return nil
	}
	v.tell(at, SignedOut, nil)
	if k != nil {
		v.spawn(func(ctx context.Context) { v.revoke(ctx, at, k.record) })
	}
	return nil
}

// Changed notes that a user has signed in or out at another replica. This one does not use what it
// knew of the account any more.
func (v *Vault) Changed(owner Owner, server string) {
	if a, ok := v.known.Peek(place{owner, server}); ok {
		a.outdate()
	}
}

// account returns what this process knows of an account.
func (v *Vault) account(at place) *account {
	if a, ok := v.known.Get(at); ok {
		return a
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if a, ok := v.known.Get(at); ok {
		return a
	}
	a := &account{place: at}
	v.known.Add(at, a)
	return a
}

// spawn runs f on a goroutine that Close waits for; false when it is too late.
func (v *Vault) spawn(f func(context.Context)) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.wg.Go(func() { f(v.base) })
	}
	return !v.closed
}

func (v *Vault) tell(at place, what string, err error) {
	if v.deps.Told != nil {
		v.deps.Told(Event{Server: at.server, Owner: at.owner, What: what, Err: err})
	}
}

// reached says what a client may reach, and how.
type reached struct {
	trust string
	route egress.Config
}

// client returns the HTTP client for the authorization server of a server.
func (v *Vault) client(server string) (*safehttp.Client, error) {
	var trust []string
	var route egress.Config
	if v.deps.Reach != nil {
		trust, route = v.deps.Reach(server)
	}
	key := reached{strings.Join(trust, "\n"), route}
	v.mu.Lock()
	defer v.mu.Unlock()
	if c, ok := v.clients.Get(key); ok {
		return c, nil
	}
	c, err := safehttp.New(safehttp.Options{Trust: trust, Timeout: askTime, MaxBytes: maxAnswer, Route: route})
	if err == nil {
		v.clients.Add(key, c)
	}
	return c, err
}

// turn waits until a token endpoint may get one more request. done lets the next one go.
func (v *Vault) turn(ctx context.Context, endpoint string) (done func(), err error) {
	v.mu.Lock()
	turns, ok := v.turns.Get(endpoint)
	if !ok {
		turns = make(chan struct{}, mostAtOnce)
		v.turns.Add(endpoint, turns)
	}
	v.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, errors.New("too many requests to it are under way")
	}
}

// warn logs what is for the operator. It never has tokens.
func (v *Vault) warn(at place, name failure.Name, message string, err error) {
	v.deps.Log.Warn(message, name.Attr(), "upstream", at.server, "error", err)
}

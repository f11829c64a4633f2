package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// KeyIssuer is the Issuer of callers with an API key. No issuer of tokens has this name, since
// theirs are URLs.
const KeyIssuer = "keys"

// Caller is the maker of a call, as in the verified token. The zero Caller is the only user
// of a gateway without authentication.
type Caller struct {
	Issuer   string
	Subject  string
	ClientID string
	Groups   []string
	Scopes   []string
	// Claims is the token's claims object, nil without a token.
	Claims Raw
	// Expires is when the token expires, including the leeway for clocks. Streams end then.
	// Zero for never.
	Expires time.Time
	// View is the name of the view with the endpoint that got the request, "" for the gateway's own
	// endpoint. It belongs to the request, not to the token.
	View string
	// From is where the request came from. Like View, it does not belong to the token.
	From Origin
	// Token is the verified access token, "" without one. It is for this gateway alone: auth
	// sets it, and only auth/outbound reads it, to exchange it (RFC 8693). It never goes to
	// an upstream.
	Token Secret
	// user caches User.
	user string
}

// Origin is where a request came from: the IP address of its client, "" if it is not known, and
// what the client calls itself (User-Agent), unchecked.
type Origin struct{ Address, Agent string }

// NewCaller returns a Caller that computes its User once.
func NewCaller(c Caller) Caller {
	c.user = userKey(c.Issuer, c.Subject)
	return c
}

// User is the key under which the user's data is stored: 32 hex digits of SHA-256(issuer, 0,
// subject). So no claim appears in a key, and equal subjects of two issuers are two users.
func (c Caller) User() string {
	if c.user != "" {
		return c.user
	}
	return userKey(c.Issuer, c.Subject)
}

func userKey(issuer, subject string) string {
	h := sha256.New()
	h.Write([]byte(issuer))
	h.Write([]byte{0})
	h.Write([]byte(subject))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

type originKey struct{}

// WithOrigin returns a context that carries the origin of a request without a caller.
func WithOrigin(ctx context.Context, from Origin) context.Context {
	return context.WithValue(ctx, originKey{}, from)
}

// OriginFrom returns the origin in the context, zero for none.
func OriginFrom(ctx context.Context) Origin {
	from, _ := ctx.Value(originKey{}).(Origin)
	return from
}

type callerKey struct{}

// WithCaller returns a context that carries the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller in the context; ok is false if authentication did not run.
func CallerFrom(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

const (
	// askEvery is how often Lasting asks for all that lasts.
	askEvery = time.Minute
	// askers is how many credentials Lasting asks for at a time.
	askers = 16
)

// ErrOver is the cause with which a context of Lasting ends.
var ErrOver = fmt.Errorf("what its caller came with is not good any more: %w", context.Canceled)

// Lasting is the register of what outlives its request: streams, calls that wait, what operators
// follow. Each ends with the credential with which it began. It is safe for concurrent use.
type Lasting struct {
	holds func(context.Context, *Caller) bool

	mu  sync.Mutex // guards all
	all map[*lasting]struct{}
}

type lasting struct {
	holds func(context.Context) bool
	end   context.CancelCauseFunc
}

// NewLasting returns an empty register. holds reports whether a caller's credential is still good; if
// it is nil, each is until it expires.
func NewLasting(holds func(context.Context, *Caller) bool) *Lasting {
	if holds == nil {
		holds = func(context.Context, *Caller) bool { return true }
	}
	return &Lasting{holds: holds, all: make(map[*lasting]struct{})}
}

// While returns a context that ends with the credential of a caller, with the cause ErrOver. The
// caller must not change until end is called.
func (l *Lasting) While(ctx context.Context, c *Caller) (_ context.Context, end context.CancelFunc) {
	expire := context.CancelFunc(func() {})
	if !c.Expires.IsZero() {
		ctx, expire = context.WithDeadlineCause(ctx, c.Expires, ErrOver)
	}
	ctx, leave := l.WhileIt(ctx, func(ctx context.Context) bool { return l.holds(ctx, c) })
	return ctx, func() {
		leave()
		expire()
	}
}

// WhileIt is While for what belongs to no Caller.
func (l *Lasting) WhileIt(ctx context.Context, holds func(context.Context) bool) (_ context.Context,
	end context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	one := &lasting{holds, cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[one] = struct{}{}
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, one)
	}
}

// Ask ends everything that runs with a credential which is not good any more.
func (l *Lasting) Ask(ctx context.Context) {
	l.mu.Lock()
	all := slices.Collect(maps.Keys(l.all))
	l.mu.Unlock()
	var asking sync.WaitGroup
	for i := range min(askers, len(all)) {
		asking.Go(func() {
			for ; i < len(all); i += askers {
				if !all[i].holds(ctx) {
					all[i].end(ErrOver)
				}
			}
		})
	}
	asking.Wait()
}

// Run asks again and again, until ctx ends.
func (l *Lasting) Run(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			l.Ask(ctx)
		}
	}
}

// Identifier returns the identifier of an issuer or a resource without the path "/": an empty path is the
// same (RFC 3986 §6.2.3), and clients in JavaScript cannot write it. All else is compared byte for byte.
func Identifier(id string) string {
	bare, slash := strings.CutSuffix(id, "/")
	_, host, hierarchical := strings.Cut(bare, "://")
	if !slash || !hierarchical || host == "" || strings.ContainsAny(host, "/?#") {
		return id
	}
	return bare
}

// SameIdentifier reports whether two identifiers are the same.
func SameIdentifier(a, b string) bool { return Identifier(a) == Identifier(b) }

// HasIdentifier reports whether a list of identifiers has one.
func HasIdentifier(list []string, id string) bool {
	return slices.ContainsFunc(list, func(one string) bool { return SameIdentifier(one, id) })
}

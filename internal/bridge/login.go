package bridge

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// afterFailure is how long a sign-in that failed is not begun again: no page opens for each request.
	afterFailure = 30 * time.Second
	// afterSuccess is how long the same sign-in counts as the same wish, and maxWishes how often it is fulfilled then:
	// a server that goes on refusing opens no page for each request (2025-11-25 basic/authorization).
	afterSuccess = 5 * time.Minute
	maxWishes    = 2
	// lastRefresh is how long a refresh may still take at the end: its token may be used up already.
	lastRefresh = 5 * time.Second
	// maxFlows bounds what is kept of sign-ins that have begun, and of registrations.
	maxFlows = 1000
)

// login authenticates the requests with the account of the one user, who signs in when the server asks for it.
type login struct {
	*outbound.Credentials
	vault  *vault.Vault
	flow   accounts.Flow
	server accounts.Server
	port   int
	open   func(url string)
	lock   string // the file that is open while the user signs in
	key    *seal.Key

	closing atomic.Bool // the last request is made: no token is worth a refresh

	base context.Context // of sign-ins; ends with close
	stop context.CancelFunc
	wg   sync.WaitGroup // one for a sign-in; close waits

	mu     sync.Mutex // guards the fields below
	flight *flight    // the sign-in that is under way; nil for none
	failed time.Time  // when the last one failed, and why
	why    error
	wish   string    // the scopes of the last sign-in
	since  time.Time // the first of those with this wish
	times  int       // how often it was fulfilled
}

// flight is a sign-in that requests wait for.
type flight struct {
	done chan struct{}
	err  error
}

// unplain matches what cannot stand in the path of a redirect URI as it is.
var unplain = regexp.MustCompile(`[^a-z0-9.]+`)

func newLogin(cfg Config, host string, route egress.Config) (*login, error) {
	secret, err := seal.SecretFile(filepath.Join(cfg.Directory, "bridge.key"), true)
	if err != nil {
		return nil, err
	}
	key, err := seal.NewKey(secret, "bridge")
	if err != nil {
		return nil, err
	}
	name := unplain.ReplaceAllString(host, "-") + "-" + key.Name(cfg.URL)[:8]
	file, err := expiring.ShareFile(filepath.Join(cfg.Directory, "bridge.db"), key)
	if err != nil {
		return nil, err
	}
	account := outbound.Config{Type: outbound.TypeUserOAuth, AuthorizationServer: cfg.AuthorizationServer,
		ClientID: cfg.ClientID, ClientSecret: cfg.ClientSecret}
	l := &login{port: cfg.Port, open: cfg.Open, lock: filepath.Join(cfg.Directory, name+".lock"), key: key,
		flow: accounts.Flow{Store: expiring.New(expiring.Base{File: file}, key, "bridge", maxFlows), Key: key},
		server: accounts.Server{Name: name, URL: cfg.URL, Issuer: cfg.AuthorizationServer, ClientID: cfg.ClientID,
			ClientSecret: cfg.ClientSecret, Route: route}}
	l.vault, err = vault.New(vault.Config{Keys: []vault.Key{{ID: "bridge", Key: mcp.Secret(secret)}}}, vault.Deps{
		Log: cfg.Log, Base: expiring.Base{File: file},
		Reach: func(string) ([]string, egress.Config) { return account.Trusted(cfg.URL), route }})
	if err != nil {
		return nil, err
	}
	l.Credentials, err = outbound.New(account, outbound.Deps{Log: cfg.Log, Upstream: name, URL: cfg.URL, Route: route,
		Vault: l.vault, OneUser: true})
	l.base, l.stop = context.WithCancel(context.Background())
	return l, err
}

func (l *login) close() {
	l.stop()
	l.wg.Wait()
	l.vault.Settle(lastRefresh)
	l.Close()
	l.vault.Close()
}

// Authorize adds the token. Without one the server is asked all the same: it may need no sign-in.
func (l *login) Authorize(ctx context.Context, caller mcp.Caller, h http.Header) (stamp uint64, err error) {
	stamp, err = l.Credentials.Authorize(ctx, caller, h)
	if missing, ok := errors.AsType[*outbound.Error](err); ok && missing.SignIn {
		return 0, nil
	}
	return stamp, err
}

// Refused notes that the server has refused a token, or a request without one.
func (l *login) Refused(ctx context.Context, caller mcp.Caller, stamp uint64, status int, challenge string) (again bool,
	err error) {
	if stamp == 0 && status == http.StatusUnauthorized {
		return false, &outbound.Error{Why: "it asks for a sign-in", SignIn: true}
	}
	if l.closing.Load() {
		return false, nil
	}
	return l.Credentials.Refused(ctx, caller, stamp, status, challenge)
}

// signIn waits until the user has signed in, in one browser for all requests. It goes on when the caller has left.
// Errors are an *accounts.Problem, those of the vault, or that of ctx.
func (l *login) signIn(ctx context.Context) error {
	l.mu.Lock()
	f := l.flight
	if f == nil && l.why != nil && time.Since(l.failed) < afterFailure {
		defer l.mu.Unlock()
		return l.why
	}
	if f == nil {
		f = &flight{done: make(chan struct{})}
		l.flight = f
		l.wg.Go(func() {
			f.err = l.obtain(l.base)
			l.mu.Lock()
			l.flight, l.failed, l.why = nil, time.Now(), f.err
			l.mu.Unlock()
			close(f.done)
		})
	}
	l.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// obtain has the user sign in, unless another bridge has just done so.
func (l *login) obtain(ctx context.Context) error {
	for {
		alone, err := expiring.OpenFile(l.lock, l.key) // which waits a second
		if err == nil {
			defer alone.Close()
			break
		}
		if !errors.Is(err, expiring.ErrInUse) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	states, err := l.vault.States(ctx, vault.Owner{}, []string{l.server.Name})
	if err != nil {
		return err
	}
	if states[0].State == vault.StateOK && len(states[0].Wanted) == 0 {
		return nil
	}
	if err := l.again(strings.Join(states[0].Wanted, " ")); err != nil {
		return err
	}
	return l.flow.SignIn(ctx, l.server, l.vault, l.port, l.open)
}

// again counts sign-ins with a wish, and refuses one that has been fulfilled often enough just now.
func (l *login) again(wish string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wish != l.wish || time.Since(l.since) > afterSuccess {
		l.wish, l.since, l.times = wish, time.Now(), 0
	}
	if l.times++; l.times > maxWishes {
		return &outbound.Error{Why: "you have signed in just now, and it goes on refusing: ask its operator for access"}
	}
	return nil
}

package bridge

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// maxPages is how many pages open within a minute: not one for each request of a server that goes on refusing
	// (2025-11-25 basic/authorization). After a sign-in that failed, none does.
	maxPages = 4
	// maxFlows bounds what is kept of sign-ins that have begun, and of registrations.
	maxFlows = 1000
)

// login authenticates the requests with the account of the one user, who signs in when the server asks for it.
type login struct {
	*outbound.Credentials
	vault  *vault.Vault
	flow   accounts.Flow
	server accounts.Server
	host   string // of the server, for people
	open   func(url string)
	lock   string // the file that is open while the user signs in
	key    *seal.Key

	base   context.Context // of sign-ins; ends with close
	stop   context.CancelFunc
	flight singleflight.Group // of sign-ins; only one is under way, and it alone uses the fields below

	pages []time.Time // when the sign-ins of the last minute ended
	why   error       // why the last one failed; nil if it did not
}

func newLogin(cfg Config, host string, route egress.Config) (*login, error) {
	secret, err := seal.SecretFile(filepath.Join(cfg.Directory, "bridge.key"), true)
	if err != nil {
		return nil, err
	}
	key, err := seal.NewKey(secret, "bridge")
	if err != nil {
		return nil, err
	}
	file, err := expiring.ShareFile(filepath.Join(cfg.Directory, "bridge.db"), key)
	if err != nil {
		return nil, err
	}
	base := expiring.Base{File: file}
	id := key.Name(cfg.URL)
	name := host + " " + id[:8]
	account := outbound.Config{Type: outbound.TypeUserOAuth, AuthorizationServer: cfg.AuthorizationServer}
	l := &login{host: host, open: cfg.Open, lock: filepath.Join(cfg.Directory, id+".lock"), key: key,
		flow: accounts.Flow{Store: expiring.New(base, key, "bridge", maxFlows), Key: key},
		server: accounts.Server{Name: name, URL: cfg.URL, Issuer: cfg.AuthorizationServer, ClientID: cfg.ClientID,
			Route: route}}
	l.vault, err = vault.New(vault.Config{Keys: []vault.Key{{ID: "bridge", Key: mcp.Secret(secret)}}}, vault.Deps{
		Log: cfg.Log, Base: base,
		Reach: func(string) ([]string, egress.Config) { return account.Trusted(cfg.URL), route }})
	if err != nil {
		return nil, err
	}
	l.Credentials, err = outbound.New(account, outbound.Deps{Log: cfg.Log, Upstream: name, URL: cfg.URL, Route: route,
		Vault: l.vault, OneUser: true})
	l.base, l.stop = context.WithCancel(context.Background())
	return l, err
}

// close ends sign-ins, and waits for refreshes. A token that is known can still be used.
func (l *login) close() {
	l.stop()
	_, _, _ = l.flight.Do("", func() (any, error) { return nil, nil }) // after the one that is under way
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
	return l.Credentials.Refused(ctx, caller, stamp, status, challenge)
}

// signIn waits until the user has signed in, in one browser for all requests. It goes on when the caller has left.
func (l *login) signIn(ctx context.Context) error {
	select {
	case done := <-l.flight.DoChan("", func() (any, error) { return nil, l.obtain(l.base) }):
		if done.Err != nil {
			return mcp.UpstreamError(failure.SignInNeeded, l.host, mcp.ExecutedNo, "You are not signed in at %s: %v", l.host,
				done.Err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// obtain has the user sign in, unless another bridge has just done so.
func (l *login) obtain(ctx context.Context) error {
	alone, err := expiring.OpenFile(l.lock, l.key)
	for errors.Is(err, expiring.ErrInUse) && ctx.Err() == nil { // by another bridge; each time takes a second
		alone, err = expiring.OpenFile(l.lock, l.key)
	}
	if err != nil {
		return err
	}
	defer alone.Close()
	var who vault.Owner // the one user
	states, err := l.vault.States(ctx, who, []string{l.server.Name})
	if err != nil {
		return err
	}
	l.pages = slices.DeleteFunc(l.pages, func(t time.Time) bool { return time.Since(t) > time.Minute })
	switch {
	case states[0].State == vault.StateOK && len(states[0].Wanted) == 0:
		return nil
	case len(l.pages) > 0 && l.why != nil:
		return l.why
	case len(l.pages) == maxPages:
		return errors.New("you have signed in several times just now, and it goes on refusing: ask its operator for access")
	}
	grant, err := l.flow.SignIn(ctx, l.server, states[0], l.open)
	if err == nil {
		err = l.vault.Keep(ctx, who, l.server.Name, grant)
	}
	l.pages, l.why = append(l.pages, time.Now()), err
	return err
}

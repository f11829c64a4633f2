package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Credentials authenticates the requests to one server on HTTP. It is the gateway's
// own: nothing that a client sent to prove who it is goes to a server.
type Credentials interface {
	// PerUser reports whether each user has a credential of its own. Then nothing that a
	// server keeps or answers for one user is shared with another.
	PerUser() bool
	// Authorize sets the header that authenticates a request made for this caller; the
	// zero Caller is nobody. Errors are an *outbound.Error.
	Authorize(ctx context.Context, caller mcp.Caller, h http.Header) (stamp uint64, err error)
	// Refused tells that the server answered 401 or 403, with this WWW-Authenticate, to
	// the request that had the stamp. It reports whether to make it once more.
	Refused(caller mcp.Caller, stamp uint64, status int, challenge string) (again bool)
}

// identity is on whose behalf a connection is: the gateway's own or that of one user,
// whose latest proof it knows for what the connection does between the user's calls.
type identity struct {
	user   string                     // whose part of the memory it takes, "" for nobody's
	caller atomic.Pointer[mcp.Caller] // nil for the gateway's own
}

// meet takes note of a proof, unless one is known that is good for as long.
func (i *identity) meet(caller *mcp.Caller) {
	var own *mcp.Caller
	for {
		known := i.caller.Load()
		if known != nil && !known.Expires.IsZero() && !caller.Expires.IsZero() && !known.Expires.Before(caller.Expires) {
			return
		}
		if own == nil {
			copied := *caller // part of a call, which is not to be kept
			own = &copied
		}
		if i.caller.CompareAndSwap(known, own) {
			return
		}
	}
}

// perUser reports whether sessions and answers belong to users, not to the gateway.
func (u *Upstream) perUser() bool { return u.credentials != nil && u.credentials.PerUser() }

// PerUser reports whether the server is used with a credential of each user: its lists
// are then those of a user, and calls without one fail.
func (u *Upstream) PerUser() bool { return u.perUser() }

// userOf is the user in keys of what is not shared between users, "" where all share it.
func (u *Upstream) userOf(caller *mcp.Caller) string {
	if !u.perUser() {
		return ""
	}
	return caller.User()
}

// acquire returns the session of a key for the caller of a call. It must be released.
func (u *Upstream) acquire(ctx context.Context, key poolKey, caller *mcp.Caller, declared capabilities, e *era, sweeps bool) (*session, error) {
	key.user = u.userOf(caller)
	if key.session == "" {
		declared = u.neutral(e.rev)
	}
	if key.user != "" && key.session == "" {
		sweeps = true // nobody ends it
	}
	return u.pool.acquire(ctx, key, caller, declared, e, sweeps)
}

// aboutCredentials reports whether an error is about the credential that was used, so
// that it says nothing to other users.
func aboutCredentials(err error) bool {
	if _, none := errors.AsType[*outbound.Error](err); none {
		return true
	}
	status, ok := errors.AsType[*statusError](err)
	return ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

// request makes a request with our credential, on behalf of caller, nil for whose the
// connection is. One that the server refused for its credential did not run: with
// another one it is made once more.
func (c *httpConn) request(ctx context.Context, caller *mcp.Caller, verb string, header http.Header, body []byte) (*http.Response, error) {
	credentials := c.t.credentials
	if credentials == nil {
		return c.t.send(ctx, c.t.http, verb, header, body)
	}
	var who mcp.Caller
	if caller == nil {
		caller = c.owner.caller.Load()
	}
	if caller != nil {
		who = *caller
	}
	over := c.t.http
	if c.t.httpFor != nil && credentials.PerUser() {
		over = c.t.httpFor(who.User())
	}
	for again := false; ; again = true {
		own := maps.Clone(header) // requests share it
		stamp, err := credentials.Authorize(ctx, who, own)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		resp, err := c.t.send(ctx, over, verb, own, body)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		challenge := strings.Join(resp.Header.Values("WWW-Authenticate"), ", ")
		if !credentials.Refused(who, stamp, resp.StatusCode, challenge) || again {
			return resp, nil
		}
		(&httpStream{t: c.t, resp: resp}).finish()
	}
}

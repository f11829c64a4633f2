package upstream

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

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
func (u *Upstream) acquire(ctx context.Context, key poolKey, caller *mcp.Caller, declared dialect.Capabilities, e *era, sweeps bool) (*session, error) {
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
	status, ok := errors.AsType[*transport.StatusError](err)
	return ok && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden)
}

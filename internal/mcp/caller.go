package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Caller is who makes a call, as the verified token says it. The zero Caller is
// the one user of a gateway without authentication.
type Caller struct {
	Issuer   string
	Subject  string
	ClientID string
	Groups   []string
	Scopes   []string
	// Claims is the token's claims object, nil without a token.
	Claims Raw
	// Expires is when the proof stops being good, with the leeway for clocks in it:
	// streams end then. Zero for never.
	Expires time.Time
	// Token is the verified access token, "" without one. It is for this gateway alone:
	// auth puts it here, and only auth/outbound reads it, to exchange it for another one
	// (RFC 8693). It never goes to an upstream.
	Token Secret
	// user caches User.
	user string
}

// NewCaller returns a Caller whose User is computed once.
func NewCaller(c Caller) Caller {
	c.user = userKey(c.Issuer, c.Subject)
	return c
}

// User is the key under which everything of this user is kept: 32 hex digits of
// SHA-256(issuer, 0, subject), so that no raw claim is in a key and equal subjects
// of two issuers are two users.
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

type callerKey struct{}

// WithCaller returns a context that carries the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller that the context carries; ok is false when
// authentication did not run.
func CallerFrom(ctx context.Context) (c Caller, ok bool) {
	c, ok = ctx.Value(callerKey{}).(Caller)
	return c, ok
}

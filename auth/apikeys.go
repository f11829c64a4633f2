package auth

import (
	"errors"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// keyring verifies API keys. What it finds is not cached: a key is found as fast as a verified
// token, and one that is revoked is gone at once.
type keyring struct {
	table    atomic.Pointer[apikey.Table] // nil without keys
	required []string
	implied  map[string][]string
}

// has reports whether a token is, or was meant to be, an API key. An issuer never sees one.
func (k *keyring) has(token string) bool { return apikey.Has(token) && k.table.Load() != nil }

// set replaces the keys.
func (k *keyring) set(keys apikey.Config) {
	var next *apikey.Table
	if !keys.IsZero() {
		next = apikey.NewTable(keys.All())
	}
	k.table.Store(next)
}

// find identifies the caller with a key, which look finds. at are the endpoints by the names of their
// views.
func (k *keyring) find(look func(*apikey.Table) (apikey.Found, error), at map[string]place) (_ identity,
	found apikey.Found, _ *refusal) {
	err := apikey.ErrUnknown
	if table := k.table.Load(); table != nil { // a reload may have taken the last key since has
		found, err = look(table)
	}
	if err != nil {
		ref := badToken(err.Error(), nil)
		if errors.Is(err, apikey.ErrExpired) {
			ref.name = failure.TokenExpired
		}
		return identity{}, found, ref
	}
	id := identity{granted: found.Scopes, caller: mcp.NewCaller(mcp.Caller{
		Issuer: mcp.KeyIssuer, Subject: found.User, ClientID: apikey.Prefix + found.ID,
		Groups: found.Groups, Scopes: withImplied(found.Scopes, k.implied), Expires: found.Ends,
	})}
	if found.Views != nil {
		id.only = []string{}
	}
	for _, view := range found.Views {
		id.only = append(id.only, at[view].resource)
	}
	id.forbidden = lacking(k.required, id.caller.Scopes)
	return id, found, nil
}

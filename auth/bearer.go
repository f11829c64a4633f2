package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// digest is the SHA-256 of a token, the key of the caches.
type digest [sha256.Size]byte

func digestOf(token string) digest {
	var buf [2048]byte // keeps most tokens off the heap
	return sha256.Sum256(append(buf[:0], token...))
}

// bearer returns the token of a request. Only the Authorization header counts, not a token in the
// query or the body (2026-07-28 basic/authorization#token-requirements). A request with both is
// refused, because its token may stand in logs (RFC 6750 §2: one method at a time).
//
// proven says that the scheme is DPoP (RFC 9449 §7.1), which counts if dpop says so: the token comes
// with a proof.
func bearer(r *http.Request, mode string, dpop bool) (token string, proven bool, _ *refusal) {
	want := "an access token is needed: send it as Authorization: Bearer"
	if mode == ModeKeys {
		want = "an API key is needed: send it as Authorization: Bearer"
	}
	lines := r.Header["Authorization"]
	if len(lines) == 0 {
		return "", false, noToken(want)
	}
	if len(lines) > 1 {
		return "", false, badRequest("there is more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	proven = dpop && strings.EqualFold(scheme, "dpop")
	if !proven && !strings.EqualFold(scheme, "bearer") {
		return "", false, noToken(want)
	}
	switch {
	case token == "":
		return "", false, noToken(want)
	case token[0] == ' ' || token[0] == '\t' || token[len(token)-1] == ' ' || token[len(token)-1] == '\t':
		return "", false, badRequest("there is one space between Bearer and the token, and none after it")
	case r.URL.RawQuery != "" && r.URL.Query().Has("access_token"):
		return "", false, badRequest("there is a token in the query too: send it in the Authorization header only")
	}
	return token, proven, nil
}

// authenticate identifies the caller of a request from somewhere to the endpoint of a view.
func (a *Auth) authenticate(r *http.Request, view string, from mcp.Origin) (mcp.Caller, *refusal) {
	token, proven, ref := bearer(r, a.cfg.Mode, a.proofs.on())
	if ref != nil {
		return mcp.Caller{}, ref
	}
	if len(token) > maxTokenBytes {
		return mcp.Caller{}, badToken("the token is too long", nil)
	}
	if a.keyring.has(token) {
		if proven {
			return mcp.Caller{}, a.proofs.check(r, token, "", "", proven)
		}
		return a.byKey(token, view, from)
	}
	d := digestOf(token)
	id, known := a.recall(d, time.Now())
	if !known {
		if id, ref = a.verify(r, token, d); ref != nil {
			return mcp.Caller{}, ref
		}
	}
	if ref = a.fits(id.caller, id.only, view); ref != nil {
		return mcp.Caller{}, ref
	}
	if id.bound != "" || proven || a.proofs.mode == DPoPRequired { // last, since a proof is good once
		if ref := a.proofs.check(r, token, id.bound, id.caller.User(), proven); ref != nil {
			return mcp.Caller{}, ref
		}
	}
	id.caller.From = from
	a.admit(id.caller, view, known)
	id.caller.Token = mcp.Secret(token)
	return id.caller, nil
}

// byKey is authenticate for an API key, which no server of ours ever gets: it is not in the Caller.
func (a *Auth) byKey(key, view string, from mcp.Origin) (mcp.Caller, *refusal) {
	now := time.Now()
	id, found, ref := a.keyring.find(func(t *apikey.Table) (apikey.Found, error) { return t.Find(key, now) },
		a.at.Load().places)
	switch {
	case ref != nil:
		return mcp.Caller{}, ref
	case id.forbidden != nil:
		return mcp.Caller{}, a.forbid(id)
	}
	if ref = a.fits(id.caller, id.only, view); ref != nil {
		return mcp.Caller{}, ref
	}
	id.caller.From = from
	a.admit(id.caller, view, a.aside || !found.Fresh(now))
	return id.caller, nil
}

// Holds reports whether an identified caller would still be the same now, with the same rights. An
// earlier Auth may have identified the caller. While that is not known, it holds.
func (a *Auth) Holds(ctx context.Context, c *mcp.Caller) bool {
	if !a.asks {
		return c.Issuer == ""
	}
	places := a.at.Load().places
	if _, there := places[c.View]; !there {
		return false
	}
	var id identity
	var ref *refusal
	switch {
	case c.Issuer == mcp.KeyIssuer:
		id, _, ref = a.keyring.find(func(t *apikey.Table) (apikey.Found, error) {
			return t.Again(c.ClientID[min(len(apikey.Prefix), len(c.ClientID)):], time.Now())
		}, places)
	case c.Token != "":
		token := string(c.Token)
		d := digestOf(token)
		known := false
		if id, known = a.recall(d, time.Now()); !known {
			id, ref = a.verify((&http.Request{}).WithContext(ctx), token, d)
		}
	default: // a person in a browser: that session has an end of its own
		return c.Issuer != ""
	}
	switch {
	case ref != nil:
		return ref.status == http.StatusServiceUnavailable
	case id.forbidden != nil || a.fits(id.caller, id.only, c.View) != nil:
		return false
	}
	now := &id.caller
	return now.User() == c.User() && now.ClientID == c.ClientID && slices.Equal(now.Groups, c.Groups) &&
		slices.Equal(now.Scopes, c.Scopes)
}

// fits refuses a caller with a token for other endpoints.
func (a *Auth) fits(caller mcp.Caller, only []string, view string) *refusal {
	if only != nil && !mcp.HasIdentifier(only, a.at.Load().places[view].resource) {
		text := "the token is for another audience"
		if caller.Issuer == mcp.KeyIssuer {
			text = "the key is for other endpoints"
		}
		return badToken(text, fmt.Errorf("it is for %q", only))
	}
	return nil
}

// admit counts a caller with a good token, and notes a new one.
func (a *Auth) admit(caller mcp.Caller, view string, known bool) {
	switch {
	case a.aside:
	case known:
		a.metrics.cached.Inc()
	default:
		a.metrics.verified.Inc()
		a.judged(Judgement{Caller: caller, View: view})
	}
}

// verify identifies the caller of a token that is not cached.
func (a *Auth) verify(r *http.Request, token string, d digest) (identity, *refusal) {
	ctx := r.Context()
	var iss *issuer
	var id identity
	var generation uint64
	var ref *refusal
	switch formOf(token) {
	case formJWT:
		var j jws
		if j, ref = splitJWT(token, a.exact); ref != nil {
			return identity{}, ref
		}
		name, _ := member(j.claims, "iss")
		if a.local != nil && name == a.local.issuer {
			id, ref = a.local.identify(ctx, token, j, time.Now())
			iss = &issuer{keys: a.local.keys}
			break
		}
		if iss = a.issuers[mcp.Identifier(name)]; iss == nil && a.cfg.Server.Enabled && name == a.cfg.Server.Issuer {
			return identity{}, badToken("the token is of the gateway's own authorization server, which does not run here", nil)
		}
		if iss == nil {
			return identity{}, otherIssuer(j.claims)
		}
		id, generation, ref = iss.verify(ctx, token, j, time.Now())
	case formOpaque:
		if a.opaque == nil {
			return identity{}, badToken("the token is not a JWT", nil)
		}
		iss = a.opaque.issuer
		if a.aside {
			id, ref = a.opaque.examine(ctx, token)
		} else {
			id, ref = a.opaque.verify(ctx, token, d, cmp.Or(a.origin(r).Address, r.RemoteAddr))
		}
		generation = iss.keys.generation.Load() // no key was used: any will do
	default:
		return identity{}, badToken("the token is not a compact JWT", nil)
	}
	switch {
	case ref != nil:
		return identity{}, ref
	case id.forbidden != nil:
		return identity{}, a.forbid(id)
	}
	a.remember(d, id, iss.keys, generation)
	return id, nil
}

// forbid completes the refusal of a valid token. A missing scope is answered with all scopes
// that are needed. It adds the granted ones, because clients of 2025-11-25 replace their
// scopes by those in the answer.
func (a *Auth) forbid(id identity) *refusal {
	ref := *id.forbidden
	ref.status = http.StatusForbidden
	if ref.code == codeInsufficientScope {
		ref.text = "the token lacks a scope that every call needs: " + strings.Join(a.cfg.RequiredScopes, " ")
		ref.scope = a.wanted(id.granted)
	}
	return &ref
}

// verified is a cached result of a valid token.
type verified struct {
	caller     mcp.Caller // without the token
	only       []string   // as in identity
	bound      string     // likewise
	until      time.Time
	keys       *keys
	generation uint64 // of keys: with others it has to be verified again
}

func (a *Auth) recall(d digest, now time.Time) (identity, bool) {
	v, ok := a.cache.Get(d)
	if a.aside || !ok || !now.Before(v.until) || v.generation != v.keys.generation.Load() {
		return identity{}, false
	}
	return identity{caller: v.caller, only: v.only, bound: v.bound}, true
}

func (a *Auth) remember(d digest, id identity, k *keys, generation uint64) {
	if a.aside {
		return
	}
	until := time.Now().Add(verifiedFor)
	if id.caller.Expires.Before(until) {
		until = id.caller.Expires
	}
	a.cache.Add(d, &verified{caller: id.caller, only: id.only, bound: id.bound, until: until, keys: k,
		generation: generation})
}

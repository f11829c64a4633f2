package auth

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// digest is the SHA-256 of a token, the key of the caches.
type digest [sha256.Size]byte

func digestOf(token string) digest {
	var buf [2048]byte // keeps most tokens off the heap
	return sha256.Sum256(append(buf[:0], token...))
}

// bearer returns the token of a request. Only the Authorization header counts, not a token in
// the query or the body (2026-07-28 basic/authorization#token-requirements). A request with
// both is refused, because its token has been where logs are written (RFC 6750 §2: one method
// at a time).
func bearer(r *http.Request) (string, *refusal) {
	const want = "an access token is needed: send it as Authorization: Bearer"
	lines := r.Header["Authorization"]
	if len(lines) == 0 {
		return "", noToken(want)
	}
	if len(lines) > 1 {
		return "", badRequest("there is more than one Authorization header")
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", noToken(want)
	}
	switch {
	case token == "":
		return "", noToken(want)
	case token[0] == ' ' || token[0] == '\t' || token[len(token)-1] == ' ' || token[len(token)-1] == '\t':
		return "", badRequest("there is one space between Bearer and the token, and none after it")
	case r.URL.RawQuery != "" && r.URL.Query().Has("access_token"):
		return "", badRequest("there is a token in the query too: send it in the Authorization header only")
	}
	return token, nil
}

// authenticate identifies the caller of a request to the endpoint of a view.
func (a *Auth) authenticate(r *http.Request, view string) (mcp.Caller, *refusal) {
	token, ref := bearer(r)
	if ref != nil {
		return mcp.Caller{}, ref
	}
	if len(token) > maxTokenBytes {
		return mcp.Caller{}, badToken("the token is too long", nil)
	}
	d := digestOf(token)
	caller, only, known := a.recall(d, time.Now())
	if known {
		a.metrics.cached.Inc()
	} else {
		if caller, only, ref = a.verify(r, token, d); ref != nil {
			return mcp.Caller{}, ref
		}
		a.metrics.verified.Inc()
	}
	if only != nil && !slices.Contains(only, a.places[view].resource) {
		return mcp.Caller{}, badToken("the token is for another audience", fmt.Errorf("it is for %q", only))
	}
	if !known {
		a.judged(Judgement{Caller: caller, View: view})
	}
	caller.Token = mcp.Secret(token)
	return caller, nil
}

// verify identifies the caller of a token that is not cached. only is as in identity.
func (a *Auth) verify(r *http.Request, token string, d digest) (_ mcp.Caller, only []string, _ *refusal) {
	ctx := r.Context()
	var iss *issuer
	var id identity
	var generation uint64
	var ref *refusal
	switch formOf(token) {
	case formJWT:
		var j jws
		if j, ref = splitJWT(token, a.exact); ref != nil {
			return mcp.Caller{}, nil, ref
		}
		name, _ := member(j.claims, "iss")
		if iss = a.issuers[name]; iss == nil {
			return mcp.Caller{}, nil, otherIssuer(j.claims)
		}
		id, generation, ref = iss.verify(ctx, token, j, time.Now())
	case formOpaque:
		if a.opaque == nil {
			return mcp.Caller{}, nil, badToken("the token is not a JWT", nil)
		}
		iss = a.opaque.issuer
		id, ref = a.opaque.verify(ctx, token, d, r.RemoteAddr)
		generation = iss.keys.generation.Load() // no key was used: any will do
	default:
		return mcp.Caller{}, nil, badToken("the token is not a compact JWT", nil)
	}
	switch {
	case ref != nil:
		return mcp.Caller{}, nil, ref
	case id.forbidden != nil:
		return mcp.Caller{}, nil, a.forbid(id)
	}
	a.remember(d, id, iss.keys, generation)
	return id.caller, id.only, nil
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
	until      time.Time
	keys       *keys
	generation uint64 // of keys: with others it has to be verified again
}

func (a *Auth) recall(d digest, now time.Time) (_ mcp.Caller, only []string, ok bool) {
	v, ok := a.cache.Get(d)
	if !ok || !now.Before(v.until) || v.generation != v.keys.generation.Load() {
		return mcp.Caller{}, nil, false
	}
	return v.caller, v.only, true
}

func (a *Auth) remember(d digest, id identity, k *keys, generation uint64) {
	until := time.Now().Add(verifiedFor)
	if id.caller.Expires.Before(until) {
		until = id.caller.Expires
	}
	a.cache.Add(d, &verified{caller: id.caller, only: id.only, until: until, keys: k, generation: generation})
}

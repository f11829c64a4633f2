package issuer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	maxCodes        = 1000
	maxFamilies     = 10_000
	codeLifetime    = time.Minute
	refreshLifetime = 24 * time.Hour
)

// grant is what a user allowed a client.
type grant struct {
	user      string
	client    string
	resource  string
	scopes    []string
	refreshes bool
}

// grants holds the issued codes and refresh tokens. When there are too many, the oldest are
// dropped.
type grants struct {
	mu       sync.Mutex // guards the fields below
	codes    *simplelru.LRU[string, *code]
	families *simplelru.LRU[string, *family]
}

// code is an authorization code. It is kept after its use, so that a second use is noticed.
type code struct {
	grant
	redirect  string
	challenge string
	family    string // of the refresh tokens that came from it
	expires   time.Time
	used      bool
}

// family is a refresh token with all its predecessors: one is valid at a time, and the use
// of an older one ends the family (OAuth 2.1 §4.3.1).
type family struct {
	grant
	current [sha256.Size]byte
	expires time.Time
}

func newGrants() *grants {
	codes, _ := simplelru.NewLRU[string, *code](maxCodes, nil) // the only error is about the size
	families, _ := simplelru.NewLRU[string, *family](maxFamilies, nil)
	return &grants{codes: codes, families: families}
}

// code makes an authorization code.
func (g *grants) code(given grant, redirect, challenge string) string {
	value := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.codes.Add(value, &code{
		grant: given, redirect: redirect, challenge: challenge,
		family: rand.Text(), expires: time.Now().Add(codeLifetime),
	})
	return value
}

// redeem uses a code, which is valid for one attempt. Without a redirect URI, the right
// verifier is enough (OAuth 2.1 §4.1.3). refresh is "" for a client that cannot use a
// refresh token.
func (g *grants) redeem(value, client, redirect, verifier string) (given grant, refresh string, err error) {
	refused := fail(errInvalidGrant, "the code is unknown, used, expired, or not for this client, redirect_uri and code_verifier")
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.codes.Peek(value)
	if !ok {
		return grant{}, "", refused
	}
	if c.used {
		g.families.Remove(c.family)
		return grant{}, "", refused
	}
	c.used = true
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if subtle.ConstantTimeCompare([]byte(challenge), []byte(c.challenge)) != 1 ||
		client != c.client || redirect != "" && redirect != c.redirect || !time.Now().Before(c.expires) {
		return grant{}, "", refused
	}
	if c.refreshes {
		refresh = g.renew(c.family, &family{grant: c.grant, expires: time.Now().Add(refreshLifetime)})
	}
	return c.grant, refresh, nil
}

// refresh exchanges a refresh token for the next one, unless check returns an error.
func (g *grants) refresh(value, client string, check func(grant) error) (given grant, next string, err error) {
	refused := fail(errInvalidGrant, "the refresh token is unknown, used, expired or not for this client")
	id, secret, _ := strings.Cut(value, ".")
	g.mu.Lock()
	defer g.mu.Unlock()
	f, ok := g.families.Peek(id)
	if !ok || client != f.client {
		return grant{}, "", refused
	}
	if !f.isCurrent(secret) || !time.Now().Before(f.expires) {
		g.families.Remove(id)
		return grant{}, "", refused
	}
	if err := check(f.grant); err != nil {
		return grant{}, "", err
	}
	return f.grant, g.renew(id, f), nil
}

// revoke ends a family; an unknown token has already ended.
func (g *grants) revoke(value, client string) {
	id, secret, _ := strings.Cut(value, ".")
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.families.Peek(id); ok && client == f.client && f.isCurrent(secret) {
		g.families.Remove(id)
	}
}

// renew gives a family its next token. g.mu is held.
func (g *grants) renew(id string, f *family) string {
	secret := rand.Text()
	f.current = sha256.Sum256([]byte(secret))
	g.families.Add(id, f)
	return id + "." + secret
}

func (f *family) isCurrent(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], f.current[:]) == 1
}

package grants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/signin"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// Bounds of what is kept in memory, where there is no Redis. What was used least recently goes first. A
// user has a share of each, also in Redis: see expiring.Store.PutOf.
const (
	mostBegun    = 2_000  // that wait for consent
	mostCodes    = 10_000 // with what remembers that they were used
	mostGrants   = 10_000
	mostConsents = 20_000
)

// State holds what all replicas share. It outlives configurations. What strangers can begin without
// having signed in is not kept here, but sealed in a cookie of their browser.
type State struct {
	flows    *seal.Key       // seals these cookies
	over     *signin.Ended   // sign-ins that have ended
	clients  *seal.Key       // seals registrations of clients, which a reload must not end
	begun    *expiring.Store // by users who have signed in and are asked for consent
	codes    *expiring.Store
	busy     *expiring.Store // grants that are being refreshed: codes, but never in a file
	grants   *expiring.Store
	consents *expiring.Store
	ring     *ring
	// documents are of clients, by those who have asked for them.
	documents *expiring.Store
}

// NewState keeps everything in a base, sealed. key makes the key for a purpose. What a process alone can lose,
// it has in memory: users who are asked for consent, and copies of documents.
func NewState(base expiring.Base, key func(purpose string) (*seal.Key, error)) (*State, error) {
	s := &State{}
	var errs []error
	newKey := func(purpose string) *seal.Key {
		k, err := key("authorization server: " + purpose)
		errs = append(errs, err)
		return k
	}
	s.flows, s.clients = newKey("sign-ins that have begun"), newKey("clients that have registered")
	s.over = signin.NewEnded(base)
	s.begun = expiring.New(base.Brief(), newKey("consent that is asked for"), "oauth-begun", mostBegun)
	s.codes = expiring.New(base, newKey("codes"), "oauth-codes", mostCodes)
	s.busy = expiring.New(base.Brief(), newKey("codes"), "oauth-codes", mostCodes)
	s.grants = expiring.New(base, newKey("grants"), "oauth-grants", mostGrants)
	s.consents = expiring.New(base, newKey("consents"), "oauth-consents", mostConsents)
	s.documents = expiring.New(base.Brief(), newKey("documents of clients"), "oauth-documents", clientele.MaxDocuments)
	s.ring = &ring{kept: expiring.New(base, newKey("signing keys"), "oauth-keys", 1)}
	return s, errors.Join(errs...)
}

// ClientsKey is the key of clientele.Deps.
func (s *State) ClientsKey() *seal.Key { return s.clients }

// Documents is that of clientele.Deps.
func (s *State) Documents() *expiring.Store { return s.documents }

// grant is what a user has given a client.
type grant struct {
	Client   string   `json:"client"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`

	// Provider and Subject identify the user, Claims are what the provider says about them.
	Provider string  `json:"provider"`
	Subject  string  `json:"subject"`
	Claims   mcp.Raw `json:"claims"`
	// Again is for asking the provider whether the user may go on; "" if it gave nothing for it.
	Again string    `json:"again,omitempty"`
	Until time.Time `json:"until"`

	// Current is the valid refresh token, Previous the one before, until shortly after Rotated.
	// Both lack the name of the grant.
	Current  string    `json:"current,omitempty"`
	Previous string    `json:"previous,omitempty"`
	Rotated  time.Time `json:"rotated"`
}

// caller is the user, as records name them.
func (g grant) caller() mcp.Caller {
	return mcp.Caller{Issuer: g.Provider, Subject: g.Subject, ClientID: g.Client}
}

// nameOf is the name of a grant in access tokens, where all can read it. Its refresh tokens begin
// with id, which only its client knows.
func nameOf(id string) string {
	sum := sha256.Sum256([]byte("grant " + id))
	return hex.EncodeToString(sum[:16])
}

// end ends a grant and its tokens: these are good as long as it is there.
func (s *State) end(ctx context.Context, name string) error { return s.grants.Drop(ctx, name) }

// ended reports whether a grant has ended or never existed.
func (s *State) ended(ctx context.Context, name string) (bool, error) {
	_, err := s.grants.Get(ctx, name)
	if errors.Is(err, expiring.ErrNone) {
		return true, nil
	}
	return false, err
}

// Keys are the keys that sign under one configuration, and what ends their tokens.
type Keys struct {
	state *State
	fixed *signingKey // of the configuration; nil for those of the ring
	// published has the public half of fixed, and the keys of the configuration that sign nothing.
	published []jose.JSONWebKey
}

// NewKeys takes the keys of the configuration, if it has any.
func (s *State) NewKeys(cfg auth.ServerConfig) (*Keys, error) {
	k := &Keys{state: s}
	if cfg.SigningKey == "" {
		return k, nil
	}
	private, err := cfg.PrivateKey()
	if err == nil {
		k.fixed, err = ofPrivate(private, time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("auth: server: signing_key: %w", err)
	}
	k.published = []jose.JSONWebKey{k.fixed.jwk()}
	previous, err := cfg.PreviousKeys()
	if err != nil {
		return nil, fmt.Errorf("auth: server: %w", err)
	}
	for _, public := range previous {
		key, err := ofPublic(public)
		if err != nil {
			return nil, fmt.Errorf("auth: server: previous_signing_keys: %w", err)
		}
		if !slices.ContainsFunc(k.published, func(one jose.JSONWebKey) bool { return one.KeyID == key.KeyID }) {
			k.published = append(k.published, key)
		}
	}
	return k, nil
}

// Ended implements auth.Local.
func (k *Keys) Ended(ctx context.Context, grant string) (bool, error) {
	return k.state.ended(ctx, grant)
}

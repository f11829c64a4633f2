package grants

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

// The life of a key. It is published before it signs, since others may have kept the key set, and
// after it has signed, since its tokens are still good.
const (
	signsFor      = 30 * 24 * time.Hour
	publishBefore = 15 * time.Minute
	publishAfter  = 2 * time.Hour
	ringLife      = 180 * 24 * time.Hour
	lookEvery     = time.Minute // how long a replica may use what it has read
	lookAgain     = time.Second // between looks for unknown keys: any stranger can make some up
)

// signingKey is a key that signs from a time on.
type signingKey struct {
	ID   string    `json:"id"`
	DER  []byte    `json:"der"` // PKCS #8
	From time.Time `json:"from"`

	private *ecdsa.PrivateKey
}

// newSigningKey makes a key.
func newSigningKey(from time.Time) (*signingKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return ofPrivate(private, from)
}

func ofPrivate(private *ecdsa.PrivateKey, from time.Time) (*signingKey, error) {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	public, err := ofPublic(&private.PublicKey)
	if err != nil {
		return nil, err
	}
	return &signingKey{ID: public.KeyID, DER: der, From: from, private: private}, nil
}

// ofPublic is a key as others see it.
func ofPublic(public *ecdsa.PublicKey) (jose.JSONWebKey, error) {
	k := jose.JSONWebKey{Key: public, Algorithm: string(jose.ES256), Use: "sig"}
	thumb, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return k, err
	}
	k.KeyID = base64.RawURLEncoding.EncodeToString(thumb[:12])
	return k, nil
}

func (k *signingKey) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.private.Public(), KeyID: k.ID, Algorithm: string(jose.ES256), Use: "sig"}
}

// ring are the keys that replicas share, oldest first.
type ring struct {
	kept *expiring.Store

	mu   sync.Mutex // guards the fields below
	keys []*signingKey
	read time.Time // when keys were read
}

const ringName = "ring"

// all returns the keys. With fresh, they are read again unless that has just been done.
func (g *ring) all(ctx context.Context, fresh bool) ([]*signingKey, error) {
	now := time.Now()
	g.mu.Lock()
	keys, age := g.keys, now.Sub(g.read)
	g.mu.Unlock()
	if len(keys) > 0 && (age < lookAgain || !fresh && age < lookEvery) {
		return keys, nil
	}
	keys, err := g.load(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("the signing keys cannot be read: %w", err)
	}
	g.mu.Lock()
	g.keys, g.read = keys, now
	g.mu.Unlock()
	return keys, nil
}

// load reads the keys, and makes a new one where it is time. Of replicas that do so at the same time
// one succeeds, and the others read what it has made.
func (g *ring) load(ctx context.Context, now time.Time) ([]*signingKey, error) {
	for attempt := range 3 {
		old, err := g.kept.Get(ctx, ringName)
		if err != nil && !errors.Is(err, expiring.ErrNone) {
			return nil, err
		}
		keys, err := parseRing(old)
		if err != nil {
			return nil, err
		}
		next, err := renewed(keys, now)
		if err != nil {
			return nil, err
		}
		if next == nil {
			return keys, nil
		}
		text, err := json.Marshal(next)
		if err != nil {
			return nil, err
		}
		written := true
		switch {
		case old != nil:
			written, err = g.kept.Swap(ctx, ringName, old, text, ringLife)
		case attempt < 2:
			written, err = g.kept.Add(ctx, ringName, text, ringLife)
		default: // there are some that cannot be opened: sessions.key is another one
			err = g.kept.Put(ctx, ringName, text, ringLife)
		}
		if err != nil || written {
			return next, err
		}
	}
	return nil, errors.New("other replicas keep changing them")
}

func parseRing(text []byte) (keys []*signingKey, err error) {
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, err
	}
	for _, k := range keys {
		private, err := x509.ParsePKCS8PrivateKey(k.DER)
		if err != nil {
			return nil, err
		}
		ok := false
		if k.private, ok = private.(*ecdsa.PrivateKey); !ok {
			return nil, errors.New("a key is of another kind")
		}
	}
	return keys, nil
}

// renewed returns the keys as they have to be, nil if they are.
func renewed(keys []*signingKey, now time.Time) ([]*signingKey, error) {
	from := now
	if n := len(keys); n > 0 {
		if end := keys[n-1].From.Add(signsFor); now.Before(end.Add(-publishBefore)) {
			return nil, nil
		} else if now.Before(end) {
			from = end
		} else {
			from = now.Add(publishBefore) // no replica was running to renew it in time
		}
	}
	made, err := newSigningKey(from)
	if err != nil {
		return nil, err
	}
	next := []*signingKey{}
	for i, k := range keys {
		if i+1 == len(keys) || now.Before(keys[i+1].From.Add(publishAfter)) {
			next = append(next, k)
		}
	}
	return append(next, made), nil
}

// signer returns the key that signs now.
func (k *Keys) signer(ctx context.Context) (*signingKey, error) {
	if k.fixed != nil {
		return k.fixed, nil
	}
	keys, err := k.state.ring.all(ctx, false)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for i := len(keys) - 1; i > 0; i-- {
		if !now.Before(keys[i].From) {
			return keys[i], nil
		}
	}
	return keys[0], nil
}

// Key implements auth.Local.
func (k *Keys) Key(ctx context.Context, id string) (crypto.PublicKey, error) {
	if k.fixed != nil {
		for _, key := range k.published {
			if key.KeyID == id {
				return key.Key, nil
			}
		}
		return nil, nil
	}
	for _, fresh := range []bool{false, true} {
		keys, err := k.state.ring.all(ctx, fresh)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if key.ID == id {
				return key.private.Public(), nil
			}
		}
	}
	return nil, nil
}

// jwks serves the public keys (RFC 7517).
func (k *Keys) jwks(w http.ResponseWriter, r *http.Request) {
	set := jose.JSONWebKeySet{Keys: k.published}
	if k.fixed == nil {
		keys, err := k.state.ring.all(r.Context(), false)
		if err != nil {
			http.Error(w, "the keys cannot be read now: try again", http.StatusServiceUnavailable)
			return
		}
		for _, key := range keys {
			set.Keys = append(set.Keys, key.jwk())
		}
	}
	text, err := json.Marshal(set)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Write(text)
}

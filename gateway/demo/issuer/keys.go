package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const algorithm = jose.ES256

// keys are the signing key and the previous one.
type keys struct {
	mu                sync.RWMutex // guards the fields below
	current, previous *signingKey
}

type signingKey struct {
	public jose.JSONWebKey
	signer jose.Signer // safe for concurrent use
}

func newKeys() (*keys, error) {
	k := &keys{}
	return k, k.rotate()
}

func (k *keys) rotate() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	id := rand.Text()[:8]
	options := (&jose.SignerOptions{}).WithType("at+jwt") // RFC 9068 §2.1
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: algorithm,
		Key:       jose.JSONWebKey{Key: private, KeyID: id},
	}, options)
	if err != nil {
		return fmt.Errorf("making a signer: %w", err)
	}
	made := &signingKey{
		public: jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: string(algorithm), Use: "sig"},
		signer: signer,
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.previous = made, k.current
	return nil
}

func (k *keys) sign(claims any) (string, error) {
	k.mu.RLock()
	signer := k.current.signer
	k.mu.RUnlock()
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// verify reads the claims of a token that was signed with a published key.
func (k *keys) verify(token string, claims any) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return err
	}
	for _, key := range k.set().Keys {
		if key.KeyID == parsed.Headers[0].KeyID {
			return parsed.Claims(key.Key, claims)
		}
	}
	return errors.New("unknown key")
}

func (k *keys) set() jose.JSONWebKeySet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{k.current.public}}
	if k.previous != nil {
		set.Keys = append(set.Keys, k.previous.public)
	}
	return set
}

func (s *Issuer) jwks(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.keys.set())
}

package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const (
	maxKeys     = 100
	maxSameKey  = 4 // keys that are tried for a token
	minRSABits  = 2048
	maxRSABits  = 4096
	maxExponent = 1<<31 - 1
)

// key is a key that verifies signatures.
type key struct {
	id     string
	alg    string   // the only algorithm that it is for, "" if the issuer does not say
	fits   []string // the algorithms that its kind can be used with
	public any
	text   string // what it was read from
}

// keySet is the set of keys that an issuer published at one time. Immutable.
type keySet struct {
	keys []key
	// refused are the keys that were skipped, with the reason.
	refused []string
	text    string // of all keys: equal for equal sets
}

// parseKeySet parses a JWK Set (RFC 7517 §5). It skips keys that cannot or should not verify
// access tokens. It only fails if the text is not a key set or is too large.
func parseKeySet(body []byte) (*keySet, error) {
	object, err := parseObject(body, "keys")
	if err != nil {
		return nil, fmt.Errorf("the key set cannot be read: %w", err)
	}
	list, ok := object.Member("keys")
	if !ok || !list.IsArray() {
		return nil, errors.New("the key set has no keys")
	}
	set := &keySet{}
	n := 0
	list.Elements(func(jwk mcp.Raw) bool {
		if n++; n > maxKeys {
			return false
		}
		k, err := parseKey(jwk)
		if err != nil {
			set.refused = append(set.refused, fmt.Sprintf("key %d: %s", n, err))
			return true
		}
		set.keys = append(set.keys, k)
		return true
	})
	if n > maxKeys {
		return nil, fmt.Errorf("the key set has more than %d keys", maxKeys)
	}
	texts := make([]string, len(set.keys))
	for i, k := range set.keys {
		texts[i] = k.text
	}
	slices.Sort(texts)
	set.text = strings.Join(texts, "\n")
	return set, nil
}

// parseKey parses a JWK that verifies signatures. It passes only the relevant members to the
// parser: no certificates, no private parts.
func parseKey(jwk mcp.Raw) (key, error) {
	var k key
	if !jwk.IsObject() {
		return k, errNotObject
	}
	if use, ok := jwk.Member("use"); ok && use.Text() != "sig" {
		return k, errors.New("it is not for signatures")
	}
	if ops, ok := jwk.Member("key_ops"); ok {
		if list, ok := textList(ops); !ok || !slices.Contains(list, "verify") {
			return k, errors.New("it is not for verifying")
		}
	}
	for _, name := range []string{"d", "k"} {
		if _, ok := jwk.Member(name); ok {
			return k, errors.New("it is a secret key, which everybody can read now")
		}
	}
	for name, to := range map[string]*string{"kid": &k.id, "alg": &k.alg} {
		if value, ok := jwk.Member(name); ok {
			if *to, ok = plainText(value); !ok {
				return k, fmt.Errorf("its %s is not a text", name)
			}
		}
	}
	parts := mcp.Raw("{}")
	for _, name := range []string{"kty", "crv", "x", "y", "n", "e"} {
		if value, ok := jwk.Member(name); ok {
			parts = parts.With(name, value)
		}
	}
	kind, _ := parts.Member("kty")
	if kt := kind.Text(); kt != "RSA" && kt != "EC" && kt != "OKP" {
		return k, fmt.Errorf("kty %.20q: want RSA, EC or OKP", kt)
	}
	var parsed jose.JSONWebKey
	if err := parsed.UnmarshalJSON(parts); err != nil {
		return k, err
	}
	if k.public = parsed.Key; !parsed.IsPublic() || !parsed.Valid() {
		return k, errors.New("it is not a valid public key")
	}
	var err error
	if k.fits, err = fitting(k.public); err != nil {
		return k, err
	}
	if k.alg != "" && !slices.Contains(k.fits, k.alg) {
		return k, fmt.Errorf("alg %.20q is not one that it could be used with", k.alg)
	}
	k.text = string(parts.With("kid", mcp.String(k.id)).With("alg", mcp.String(k.alg)))
	return k, nil
}

// fitting returns the algorithms for a kind of key, and refuses weak keys.
func fitting(public any) ([]string, error) {
	switch p := public.(type) {
	case *rsa.PublicKey:
		if bits := p.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, fmt.Errorf("RSA with %d bits: want %d to %d", bits, minRSABits, maxRSABits)
		}
		if p.E < 3 || p.E%2 == 0 || p.E > maxExponent || p.N.Bit(0) == 0 {
			return nil, fmt.Errorf("RSA with the exponent %d or an even modulus", p.E)
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		if _, err := p.ECDH(); err != nil { // not on the curve
			return nil, err
		}
		// RFC 7518 §3.4: each algorithm has its curve.
		switch p.Curve.Params().BitSize {
		case 256:
			return []string{"ES256"}, nil
		case 384:
			return []string{"ES384"}, nil
		case 521:
			return []string{"ES512"}, nil
		}
	case ed25519.PublicKey:
		return []string{"EdDSA"}, nil
	}
	return nil, errors.New("there is no algorithm for it")
}

// known reports whether there is a key with this id.
func (s *keySet) known(kid string) bool {
	return slices.ContainsFunc(s.keys, func(k key) bool { return k.id == kid })
}

// candidates returns the keys that fit a token's header and algorithm. Without a kid, any of
// them may have signed the token.
func (s *keySet) candidates(j jws) []key {
	var found []key
	for _, k := range s.keys {
		if j.hasKid && k.id != j.kid || k.alg != "" && k.alg != j.alg || !slices.Contains(k.fits, j.alg) {
			continue
		}
		if found = append(found, k); len(found) == maxSameKey {
			break
		}
	}
	return found
}

// signedBy is an oidc.KeySet of the keys that may have signed a token.
type signedBy struct {
	keys []key
	alg  string
}

// VerifySignature returns the payload of a compact JWS that was signed by one of the keys.
func (s signedBy) VerifySignature(_ context.Context, token string) ([]byte, error) {
	parsed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(s.alg)})
	if err != nil {
		return nil, err
	}
	err = errors.New("there is no key for the algorithm")
	for _, k := range s.keys {
		var payload []byte
		if payload, err = parsed.Verify(k.public); err == nil {
			return payload, nil
		}
	}
	return nil, err
}

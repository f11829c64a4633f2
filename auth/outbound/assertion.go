package outbound

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// assertionLife is how long an assertion is good: one request.
	assertionLife = time.Minute
	minRSABits    = 2048
)

// newSigner makes what signs the assertions. Its errors begin with a key of Config and
// do not repeat anything of the private key.
func newSigner(c Config) (jose.Signer, error) {
	key, err := parseKey([]byte(c.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("private_key: %w", err)
	}
	algorithms, err := algorithmsOf(key)
	if err != nil {
		return nil, fmt.Errorf("private_key: %w", err)
	}
	algorithm := algorithms[0]
	if c.Algorithm != "" {
		if algorithm = jose.SignatureAlgorithm(c.Algorithm); !slices.Contains(algorithms, algorithm) {
			return nil, fmt.Errorf("algorithm: %q is not for this private_key: want one of %v", c.Algorithm, algorithms)
		}
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: c.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, errors.New("private_key: cannot be used for signing")
	}
	return signer, nil
}

// parseKey reads PKCS #8, PKCS #1 or SEC 1.
func parseKey(text []byte) (crypto.Signer, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, errors.New(`is not in PEM: want "-----BEGIN PRIVATE KEY-----" and what follows, with its line breaks`)
	}
	if block.Type == "EC PARAMETERS" { // openssl puts them in front
		if next, _ := pem.Decode(rest); next != nil {
			block = next
		}
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, errors.New("is encrypted: the gateway has no passphrase for it")
	default:
		return nil, fmt.Errorf("is a %.40q: want a private key", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, errors.New("cannot be read: it is encrypted, damaged or of an unknown kind")
	}
	return signer, nil
}

// algorithmsOf are those that a key can sign with, the default first.
func algorithmsOf(key crypto.Signer) ([]jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("has %d bits: at least %d are needed", key.N.BitLen(), minRSABits)
		}
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}, nil
	case ed25519.PrivateKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}, nil
	case *ecdsa.PrivateKey:
		switch key.Curve.Params().Name {
		case "P-256":
			return []jose.SignatureAlgorithm{jose.ES256}, nil
		case "P-384":
			return []jose.SignatureAlgorithm{jose.ES384}, nil
		case "P-521":
			return []jose.SignatureAlgorithm{jose.ES512}, nil
		}
	}
	return nil, errors.New("is of a kind that cannot sign: want RSA, EC on P-256, P-384 or P-521, or Ed25519")
}

// assertion makes a JWT that proves who we are, once (RFC 7523 §3).
func assertion(signer jose.Signer, clientID, audience string, now time.Time) (string, error) {
	claims, err := json.Marshal(struct {
		Issuer    string `json:"iss"`
		Subject   string `json:"sub"`
		Audience  string `json:"aud"`
		ID        string `json:"jti"`
		IssuedAt  int64  `json:"iat"`
		ExpiresAt int64  `json:"exp"`
	}{clientID, clientID, audience, rand.Text(), now.Unix(), now.Add(assertionLife).Unix()})
	if err != nil {
		return "", fmt.Errorf("signing an assertion: %w", err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", fmt.Errorf("signing an assertion: %w", err)
	}
	return signed.CompactSerialize()
}

package mcptest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha256" // for crypto.Hash
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"
)

// Key is a key of an Issuer. Its fields may be changed until it is published.
type Key struct {
	// ID is the kid, Alg the signature algorithm.
	ID, Alg string
	// Members override members of the JWK; nil removes one.
	Members map[string]any
	private crypto.Signer
}

// NewKey makes a key for an algorithm: RS256 to RS512, PS256 to PS512, ES256, ES384, ES512
// or EdDSA. bits is the size of RSA keys; 0 means 2048.
func NewKey(id, alg string, bits int) *Key {
	k := &Key{ID: id, Alg: alg, Members: map[string]any{}}
	var err error
	switch alg {
	case "ES256":
		k.private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		k.private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		k.private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, k.private, err = ed25519.GenerateKey(rand.Reader)
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		k.private, err = rsa.GenerateKey(rand.Reader, cmp.Or(bits, 2048))
	default:
		err = fmt.Errorf("there are no keys for %q", alg)
	}
	if err != nil {
		panic("mcptest: " + err.Error())
	}
	return k
}

// With returns a key with the same secret but another id and algorithm.
func (k *Key) With(id, alg string) *Key {
	return &Key{ID: id, Alg: alg, Members: map[string]any{}, private: k.private}
}

// Public returns the public key: *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey.
func (k *Key) Public() crypto.PublicKey { return k.private.Public() }

// AddKey makes a key and publishes it. From now on it signs Token.
func (i *Issuer) AddKey(alg string) *Key {
	i.mu.Lock()
	i.made++
	id := fmt.Sprintf("key-%d", i.made)
	i.mu.Unlock()
	k := NewKey(id, alg, 0)
	i.Publish(k)
	return k
}

// Publish adds keys to the key set. From now on the last one signs Token.
func (i *Issuer) Publish(keys ...*Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, keys...)
}

// Withdraw removes keys from the key set.
func (i *Issuer) Withdraw(keys ...*Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = slices.DeleteFunc(i.keys, func(k *Key) bool { return slices.Contains(keys, k) })
}

// Rotate publishes a new key and withdraws all others.
func (i *Issuer) Rotate(alg string) *Key {
	k := i.AddKey(alg)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []*Key{k}
	return k
}

// Key returns the key that signs Token.
func (i *Issuer) Key() *Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

// Token issues an access token (RFC 9068) for the gateway. It is valid for five minutes and
// has sub "alice", client_id "client" and a new jti. claims override the defaults; nil
// removes a claim.
func (i *Issuer) Token(claims map[string]any) string {
	return i.Sign(nil, claims)
}

// Sign is Token with header parameters that override alg, kid and typ; nil removes one.
func (i *Issuer) Sign(header, claims map[string]any) string {
	return i.Key().Sign(header, i.claims(claims))
}

// claims returns the default claims, overridden by others.
func (i *Issuer) claims(claims map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": i.URL, "sub": "alice", "aud": i.Audience, "client_id": "client",
		"iat": now, "exp": now + 300, "jti": rand.Text(),
	}
	maps.Copy(all, claims)
	return all
}

// Sign makes a JWS of claims, without those that are nil.
func (k *Key) Sign(header, claims map[string]any) string {
	all := map[string]any{"alg": k.Alg, "kid": k.ID, "typ": "at+jwt"}
	maps.Copy(all, header)
	return k.SignText(text(all), text(claims))
}

// SignText makes a JWS of texts that need not be JSON.
func (k *Key) SignText(header, payload string) string {
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	return input + "." + encode(k.signature(input))
}

// signature signs with the key's algorithm, whatever the header says.
func (k *Key) signature(input string) []byte {
	if k.Alg == "EdDSA" {
		return ed25519.Sign(k.private.(ed25519.PrivateKey), []byte(input))
	}
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[k.Alg[2:]]
	h := hash.New()
	h.Write([]byte(input))
	digest := h.Sum(nil)
	var sig []byte
	var err error
	switch private := k.private.(type) {
	case *rsa.PrivateKey:
		var opts crypto.SignerOpts = hash
		if k.Alg[0] == 'P' {
			opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		sig, err = private.Sign(rand.Reader, digest, opts)
	case *ecdsa.PrivateKey:
		var r, s *big.Int
		if r, s, err = ecdsa.Sign(rand.Reader, private, digest); err == nil {
			size := (private.Curve.Params().BitSize + 7) / 8
			sig = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
		}
	}
	if err != nil {
		panic("mcptest: " + err.Error())
	}
	return sig
}

// jwk returns the public key as a member of the key set.
func (k *Key) jwk() map[string]any {
	jwk := map[string]any{"kid": k.ID, "alg": k.Alg, "use": "sig"}
	switch public := k.private.Public().(type) {
	case *rsa.PublicKey:
		jwk["kty"] = "RSA"
		jwk["n"] = encode(public.N.Bytes())
		jwk["e"] = encode(big.NewInt(int64(public.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := public.Bytes()
		if err != nil {
			panic("mcptest: " + err.Error())
		}
		half := len(point) / 2 // after the first byte, which means uncompressed
		jwk["kty"], jwk["crv"] = "EC", public.Curve.Params().Name
		jwk["x"], jwk["y"] = encode(point[1:1+half]), encode(point[1+half:])
	case ed25519.PublicKey:
		jwk["kty"], jwk["crv"], jwk["x"] = "OKP", "Ed25519", encode(public)
	}
	for name, value := range k.Members {
		jwk[name] = value
		if value == nil {
			delete(jwk, name)
		}
	}
	return jwk
}

// text returns an object without its nil members.
func text(members map[string]any) string {
	members = maps.Clone(members)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	b, err := json.Marshal(members)
	if err != nil {
		panic("mcptest: " + err.Error())
	}
	return string(b)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

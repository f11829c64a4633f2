package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// MinSecret is the least length of a secret in bytes.
	MinSecret = 32
	// minDistinct is the least number of different bytes in a secret. 32 random hexadecimal
	// digits have about 14; a repeated word, or zeros, have fewer.
	minDistinct = 8
)

const (
	idSize    = 4
	nonceSize = 12
	tagSize   = 16
	// Overhead is how many bytes SealBytes adds to a plaintext.
	Overhead = idSize + nonceSize + tagSize
)

// ErrInvalid is returned for text that this key did not seal, that was changed, or that is
// bound to something else. It does not say which.
var ErrInvalid = errors.New("seal: invalid")

// Key seals and opens for one purpose. It is safe for concurrent use. Nonces are random, so
// one secret may seal at most 2^32 texts for a purpose.
type Key struct {
	aead     cipher.AEAD // AES-256-GCM; prepends its nonce
	id       [idSize]byte
	names    []byte // key of the MAC in Name
	accepted []*Key // these only open
}

// Check returns an error if a secret is too weak: shorter than MinSecret, or made of too
// few different bytes.
func Check(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("%d bytes are too few: at least %d are needed, such as those of openssl rand -base64 32",
			len(secret), MinSecret)
	}
	var seen [256]bool
	distinct := 0
	for _, b := range secret {
		if !seen[b] {
			seen[b] = true
			distinct++
		}
	}
	if distinct < minDistinct {
		return fmt.Errorf("%d different bytes are too few to be random: write what openssl rand -base64 32 prints", distinct)
	}
	return nil
}

// NewKey derives the key of a purpose from a secret that passes Check. Keys of the same
// secret for different purposes are independent. The accepted secrets open what they have
// sealed, and seal nothing.
func NewKey(secret []byte, purpose string, accepted ...[]byte) (*Key, error) {
	k, err := newKey(secret, purpose)
	if err != nil {
		return nil, err
	}
	for _, other := range accepted {
		a, err := newKey(other, purpose)
		if err != nil {
			return nil, err
		}
		k.accepted = append(k.accepted, a)
	}
	return k, nil
}

func newKey(secret []byte, purpose string) (*Key, error) {
	if err := Check(secret); err != nil {
		return nil, fmt.Errorf("seal: the secret: %w", err)
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "gatehouse seal v1 "+purpose, 32+idSize+sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("seal: deriving a key: %w", err)
	}
	block, err := aes.NewCipher(derived[:32])
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	k := &Key{aead: aead, names: derived[32+idSize:]}
	copy(k.id[:], derived[32:])
	return k, nil
}

// NewRandom makes a key from a random secret: nothing that it seals can be opened by
// another process.
func NewRandom(purpose string) (*Key, error) {
	secret := make([]byte, MinSecret)
	rand.Read(secret) // never fails
	return NewKey(secret, purpose)
}

// Seal encrypts plain and binds it to the values in bound. They are not part of the text:
// Open needs the same values in the same order. The text is the output of SealBytes in
// base64url without padding.
func (k *Key) Seal(plain []byte, bound ...string) string {
	return base64.RawURLEncoding.EncodeToString(k.SealBytes(plain, bound...))
}

// SealBytes is Seal with binary output: the key's id (4 bytes, to tell keys apart), nonce
// (12), ciphertext, tag (16).
func (k *Key) SealBytes(plain []byte, bound ...string) []byte {
	buf := make([]byte, idSize, Overhead+len(plain))
	copy(buf, k.id[:])
	var scratch [256]byte
	return k.aead.Seal(buf, nil, plain, appendBound(scratch[:0], bound))
}

// Open returns what Seal sealed, or ErrInvalid.
func (k *Key) Open(sealed string, bound ...string) ([]byte, error) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	// The decoder skips line breaks, but each sealed value may have only one text.
	if err != nil || base64.RawURLEncoding.EncodedLen(len(buf)) != len(sealed) {
		return nil, ErrInvalid
	}
	return k.OpenBytes(buf, bound...)
}

// OpenBytes returns what SealBytes sealed, or ErrInvalid. It overwrites sealed and returns
// a part of it.
func (k *Key) OpenBytes(sealed []byte, bound ...string) ([]byte, error) {
	if len(sealed) < Overhead {
		return nil, ErrInvalid
	}
	by := k.of([idSize]byte(sealed))
	if by == nil {
		return nil, ErrInvalid
	}
	var scratch [256]byte
	plain, err := by.aead.Open(sealed[idSize:idSize], nil, sealed[idSize:], appendBound(scratch[:0], bound))
	if err != nil {
		return nil, ErrInvalid
	}
	return plain, nil
}

// of returns the key with this id, or nil.
func (k *Key) of(id [idSize]byte) *Key {
	if k.id == id {
		return k
	}
	for _, a := range k.accepted {
		if a.id == id {
			return a
		}
	}
	return nil
}

// Name derives a name from these values: 32 hexadecimal digits. Without the secret it cannot be
// computed, nor the values recovered. Accepted secrets do not change it.
func (k *Key) Name(values ...string) string {
	mac := hmac.New(sha256.New, k.names)
	var scratch [256]byte
	mac.Write(appendBound(scratch[:0], values))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// appendBound writes the values unambiguously: their number, then each one after its
// length.
func appendBound(dst []byte, bound []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bound)))
	for _, b := range bound {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
		dst = append(dst, b...)
	}
	return dst
}

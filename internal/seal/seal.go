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
	// minDistinct is how many different bytes a secret has at least. 32 random hexadecimal
	// digits have some 14; a repeated word, or zeros, have fewer.
	minDistinct = 8
)

const (
	idSize    = 4
	nonceSize = 12
	tagSize   = 16
	// Overhead is by how many bytes SealBytes makes a text longer.
	Overhead = idSize + nonceSize + tagSize
)

// ErrInvalid is the answer for text that this key did not seal, that was changed,
// or that is bound to something else. Which of them is not told.
var ErrInvalid = errors.New("seal: invalid")

// Key seals and opens for one purpose. It is safe for concurrent use. Nonces are
// random, so one secret is good for 2^32 texts of a purpose.
type Key struct {
	aead     cipher.AEAD // AES-256-GCM, puts its nonce in front
	id       [idSize]byte
	names    []byte // the key of Name
	accepted []*Key // they open too
}

// Check reports what makes a secret too weak to seal with: it is shorter than MinSecret, or
// the same few bytes over and over.
func Check(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("%d bytes are too few: at least %d are needed, such as those of openssl rand -base64 32", len(secret), MinSecret)
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

// NewKey derives the key of a purpose from a secret that passes Check. Keys of one secret
// and different purposes have nothing to do with each other. What was sealed with the
// accepted secrets is opened, and nothing is sealed with them.
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

// NewRandom makes a key that nobody else has: what it seals is good as long as the
// process lives.
func NewRandom(purpose string) (*Key, error) {
	secret := make([]byte, MinSecret)
	rand.Read(secret) // never fails
	return NewKey(secret, purpose)
}

// Seal encrypts plain and binds it to the values in bound, which are not part of
// the text: Open needs the same ones in the same order. The text is SealBytes's in
// base64url without padding.
func (k *Key) Seal(plain []byte, bound ...string) string {
	return base64.RawURLEncoding.EncodeToString(k.SealBytes(plain, bound...))
}

// SealBytes is Seal for what may hold any bytes. They are: the key's id (4 bytes, which
// tells keys apart), nonce (12), ciphertext, tag (16).
func (k *Key) SealBytes(plain []byte, bound ...string) []byte {
	buf := make([]byte, idSize, Overhead+len(plain))
	copy(buf, k.id[:])
	var scratch [256]byte
	return k.aead.Seal(buf, nil, plain, appendBound(scratch[:0], bound))
}

// Open returns what was sealed, or ErrInvalid.
func (k *Key) Open(sealed string, bound ...string) ([]byte, error) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	// The decoder skips line breaks: one sealed value must have one text only.
	if err != nil || base64.RawURLEncoding.EncodedLen(len(buf)) != len(sealed) {
		return nil, ErrInvalid
	}
	return k.OpenBytes(buf, bound...)
}

// OpenBytes returns what SealBytes sealed, or ErrInvalid. It overwrites sealed: what it
// returns is a part of that.
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

// of returns the key with an id, nil for none.
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

// Name is a name for these values that only holders of the secret can make, or know the
// values of: 32 hexadecimal digits. Accepted secrets do not change it.
func (k *Key) Name(values ...string) string {
	mac := hmac.New(sha256.New, k.names)
	var scratch [256]byte
	mac.Write(appendBound(scratch[:0], values))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// appendBound writes the values so that no two lists of values look the same: their
// number, then each with its length in front.
func appendBound(dst []byte, bound []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bound)))
	for _, b := range bound {
		dst = binary.AppendUvarint(dst, uint64(len(b)))
		dst = append(dst, b...)
	}
	return dst
}

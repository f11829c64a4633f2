package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
)

// MinSecret is the least length of a secret in bytes.
const MinSecret = 32

const (
	idSize    = 4
	nonceSize = 12
	tagSize   = 16
	overhead  = idSize + nonceSize + tagSize
)

// ErrInvalid is the answer for text that this key did not seal, that was changed,
// or that is bound to something else. Which of them is not told.
var ErrInvalid = errors.New("seal: invalid")

// Key seals and opens for one purpose. It is safe for concurrent use. Nonces are
// random, so one secret is good for 2^32 texts of a purpose.
type Key struct {
	aead cipher.AEAD // AES-256-GCM, puts its nonce in front
	id   [idSize]byte
}

// NewKey derives the key of a purpose from a secret of at least MinSecret bytes.
// Keys of one secret and different purposes have nothing to do with each other.
func NewKey(secret []byte, purpose string) (*Key, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("seal: the secret has %d bytes: at least %d are needed, such as those of openssl rand -base64 32", len(secret), MinSecret)
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "gatehouse seal v1 "+purpose, 32+idSize)
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
	k := &Key{aead: aead}
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
// the text: Open needs the same ones in the same order. The text is base64url
// without padding of: key id (4 bytes, so that a second key can be told apart),
// nonce (12), ciphertext, tag (16).
func (k *Key) Seal(plain []byte, bound ...string) string {
	buf := make([]byte, idSize, overhead+len(plain))
	copy(buf, k.id[:])
	var scratch [256]byte
	buf = k.aead.Seal(buf, nil, plain, appendBound(scratch[:0], bound))
	return base64.RawURLEncoding.EncodeToString(buf)
}

// Open returns what was sealed, or ErrInvalid.
func (k *Key) Open(sealed string, bound ...string) ([]byte, error) {
	buf, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	// The decoder skips line breaks: one sealed value must have one text only.
	if err != nil || len(buf) < overhead || base64.RawURLEncoding.EncodedLen(len(buf)) != len(sealed) {
		return nil, ErrInvalid
	}
	if [idSize]byte(buf) != k.id {
		return nil, ErrInvalid
	}
	var scratch [256]byte
	plain, err := k.aead.Open(buf[idSize:idSize], nil, buf[idSize:], appendBound(scratch[:0], bound))
	if err != nil {
		return nil, ErrInvalid
	}
	return plain, nil
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

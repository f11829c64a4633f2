package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
)

// Prefix begins every key, so that scanners for secrets find keys.
const Prefix = "ghk_"

// IDLength is how long the id of a key is.
const IDLength = 10

const (
	secretLength = 43 // 62^43 is more than 2^256
	sumLength    = 6  // 62^6 is more than 2^32
	keyLength    = len(Prefix) + IDLength + secretLength + sumLength

	letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// errForm is the error for a text that is no whole key.
var errForm = errors.New("the key is not whole: it was cut, or has a typing error")

// New makes a key: the prefix, a random id, a random secret of 256 bits, and a checksum. The id is
// no secret.
func New() (key, id string) {
	id = random(IDLength)
	body := Prefix + id + random(secretLength)
	return body + checksum(body), id
}

// Has reports whether a text begins like a key.
func Has(text string) bool { return strings.HasPrefix(text, Prefix) }

// idOf returns the id in a key. The checksum finds keys that were cut or mistyped; it proves
// nothing.
func idOf(key string) (string, error) {
	if len(key) != keyLength || !Has(key) || strings.Trim(key[len(Prefix):], letters) != "" {
		return "", errForm
	}
	body := key[:keyLength-sumLength]
	if checksum(body) != key[len(body):] {
		return "", errForm
	}
	return key[len(Prefix) : len(Prefix)+IDLength], nil
}

// Hash is the digest of a key, as entries have it: 64 hex digits.
//
// It is a plain SHA-256. Slow hashes and salts protect what people choose, because that can be
// guessed. There are 2^256 secrets of a key, all alike, so no hash makes guessing any harder, and a
// slow one would slow down every request.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// random returns random letters and digits.
func random(n int) string {
	const even = 256 - 256%len(letters) // a byte below it stands for every letter equally often
	text := make([]byte, 0, n)
	for buf := make([]byte, 2*n); len(text) < n; {
		rand.Read(buf) // never fails
		for _, b := range buf {
			if int(b) < even && len(text) < n {
				text = append(text, letters[int(b)%len(letters)])
			}
		}
	}
	return string(text)
}

func checksum(body string) string {
	var text [sumLength]byte
	sum := crc32.ChecksumIEEE([]byte(body))
	for i := range text {
		text[sumLength-1-i] = letters[sum%uint32(len(letters))]
		sum /= uint32(len(letters))
	}
	return string(text[:])
}

package vault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// dataKeySize is the size of a data key in bytes.
const dataKeySize = 32

// wrapper makes and opens data keys. A wrapped key is text without line breaks, meaningless without
// the wrapper's own key. A key management service is one more wrapper.
type wrapper interface {
	// makes returns a new data key, in clear and wrapped.
	makes(ctx context.Context) (clear []byte, wrapped string, err error)
	// opens returns a data key in clear. The error is errUnreadable if it never will.
	opens(ctx context.Context, wrapped string) ([]byte, error)
	// owns reports whether it wrapped this.
	owns(wrapped string) bool
	// old reports whether a data key should be wrapped again.
	old(wrapped string) bool
	close()
}

// localKey wraps data keys with a key of the configuration.
type localKey struct {
	prefix string
	key    *seal.Key
}

// keyPurpose is the purpose of keys that are derived from the configuration's.
const keyPurpose = "vault data key"

// localPrefix begins what a key of the configuration wrapped; its id follows.
const localPrefix = "key:"

func newLocalKey(k Key) (*localKey, error) {
	key, err := seal.NewKey([]byte(string(k.Key)), keyPurpose)
	if err != nil {
		return nil, fmt.Errorf("key %s: %w", k.ID, err)
	}
	return &localKey{localPrefix + k.ID + ":", key}, nil
}

// newRandomKey makes a key that ends with the process.
func newRandomKey() (*localKey, error) {
	key, err := seal.NewRandom(keyPurpose)
	return &localKey{localPrefix + "random:", key}, err
}

func (k *localKey) makes(context.Context) (clear []byte, wrapped string, err error) {
	clear = make([]byte, dataKeySize)
	rand.Read(clear) // never fails
	return clear, k.prefix + k.key.Seal(clear, k.prefix), nil
}

func (k *localKey) opens(_ context.Context, wrapped string) ([]byte, error) {
	clear, err := k.key.Open(strings.TrimPrefix(wrapped, k.prefix), k.prefix)
	if errors.Is(err, seal.ErrInvalid) {
		return nil, errUnreadable
	}
	return clear, err
}

func (k *localKey) owns(wrapped string) bool { return strings.HasPrefix(wrapped, k.prefix) }

func (k *localKey) old(string) bool { return false }

func (k *localKey) close() {}

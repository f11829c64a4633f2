package vault

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
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

// ownKey is a key in a file for its owner alone, made with the first use.
type ownKey struct {
	path string

	mu  sync.Mutex // guards key
	key *localKey  // nil before the first use
}

// ownID is the id of an ownKey. No key of the configuration has it.
const ownID = "own key"

func (k *ownKey) open() (*localKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	secret, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		secret, err = k.create()
	}
	if err != nil {
		return nil, err
	}
	k.key, err = newLocalKey(Key{ID: ownID, Key: mcp.Secret(secret)})
	return k.key, err
}

func (k *ownKey) create() (secret []byte, err error) {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(k.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	secret = []byte(rand.Text() + rand.Text())
	_, err = f.Write(secret)
	return secret, errors.Join(err, f.Sync(), f.Close())
}

func (k *ownKey) makes(ctx context.Context) (clear []byte, wrapped string, err error) {
	key, err := k.open()
	if err != nil {
		return nil, "", err
	}
	return key.makes(ctx)
}

func (k *ownKey) opens(ctx context.Context, wrapped string) ([]byte, error) {
	key, err := k.open()
	if err != nil {
		return nil, err
	}
	return key.opens(ctx, wrapped)
}

func (k *ownKey) owns(wrapped string) bool { return strings.HasPrefix(wrapped, localPrefix+ownID+":") }

func (k *ownKey) old(string) bool { return false }

func (k *ownKey) close() {}

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

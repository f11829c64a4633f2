// Package state has what must outlive gateways: in Redis for replicas, in a file for a gateway alone.
//
// It owns the keys and the file of a gateway alone, the list of what is kept, and moving all of it from one
// place to another. It leaves the values to auth/grants, auth/accounts, auth/signin and auth/vault, and how they
// are kept to internal/expiring. It starts no goroutines.
package state

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Files in the directory of a gateway alone.
const (
	fileName = "state.db"
	keyName  = "state.key" // also the id of that key in the vault
)

// Keys seal what is kept.
type Keys struct {
	// Secret seals, Accepted only open. Secret is nil for random keys, until the process ends.
	Secret   []byte
	Accepted [][]byte
	// Vault has the keys of the tokens of users' own accounts.
	Vault vault.Config
}

// KeysOf returns the keys of a configuration. What they lack comes from the directory of the state, if there is
// one: its key is made with the first use, if create is true, and opens as long as it is there.
func KeysOf(cfg config.Config, create bool) (k Keys, err error) {
	k.Vault = cfg.Vault
	k.Secret, k.Accepted = cfg.Sessions.Secrets()
	directory := cfg.StateDirectory()
	if directory == "" {
		return k, nil
	}
	_, missing := os.Stat(filepath.Join(directory, fileName))
	needed := k.Secret == nil || k.Vault.Keyless()
	own, err := seal.SecretFile(filepath.Join(directory, keyName), create && needed && missing != nil)
	switch {
	case err != nil:
		return k, err
	case own == nil && needed && missing != nil:
		return k, fmt.Errorf("%s has no %s, the key of the state: put that of the backup there, or name sessions.key and vault.keys",
			directory, keyName)
	case own == nil && needed:
		return k, fmt.Errorf("%s has a state file, but not %s, the key of it: restore that, or name sessions.key and vault.keys if they have sealed all of it",
			directory, keyName)
	case own == nil:
		return k, nil
	}
	if k.Secret == nil {
		k.Secret = own
	} else {
		k.Accepted = append(slices.Clone(k.Accepted), own)
	}
	if !slices.ContainsFunc(k.Vault.Keys, func(other vault.Key) bool { return other.ID == keyName }) {
		k.Vault.Keys = append(slices.Clone(k.Vault.Keys), vault.Key{ID: keyName, Key: mcp.Secret(own)})
	}
	return k, nil
}

// key returns the sealing key for a purpose.
func (k Keys) key(purpose string) (*seal.Key, error) {
	if k.Secret == nil {
		return seal.NewRandom(purpose)
	}
	return seal.NewKey(k.Secret, purpose, k.Accepted...)
}

// Open opens the file of a gateway alone, nil if the configuration has no directory for it. Errors are those of
// expiring.OpenFile.
func Open(cfg config.Config, keys Keys) (*expiring.File, error) {
	directory := cfg.StateDirectory()
	if directory == "" {
		return nil, nil
	}
	key, err := keys.key("state file")
	if err != nil {
		return nil, err
	}
	return expiring.OpenFile(filepath.Join(directory, fileName), key)
}

// place is where a configuration keeps the state, for a command.
type place struct {
	expiring.Base
	keys  Keys
	what  string // the kind of the place, for people
	close func() error
}

// openPlace opens the file, which no running gateway may use, or Redis.
func openPlace(cfg config.Config, keys Keys, log *slog.Logger) (p place, err error) {
	p.keys = keys
	if cfg.Sessions.Store == session.StoreRedis {
		db, err := redisdb.Open(cfg.Sessions.Redis, log, nil)
		if err != nil {
			return p, err
		}
		p.Redis, p.what, p.close = db, "Redis", db.Close
		return p, nil
	}
	f, err := Open(cfg, p.keys)
	if err == nil && f == nil {
		err = fmt.Errorf("nothing is kept: the configuration has neither state.directory nor sessions.store: redis")
	}
	if err != nil {
		return p, err
	}
	p.File, p.what, p.close = f, f.Path(), f.Close
	return p, nil
}

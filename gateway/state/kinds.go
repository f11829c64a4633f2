package state

import (
	"context"
	"log/slog"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// kind is one kind of values of the state: a room of its stores.
type kind struct {
	room    string
	purpose string // of the key that seals it; "" for what is not sealed, or sealed by the vault
}

// kinds returns what has to outlive gateways.
func kinds() []kind {
	return []kind{
		{vault.Room, ""},
		{"account-uses", ""},
		{"account-sign-ins", "users' accounts at servers"},
		{"sign-ins-ended", ""},
		{"oauth-codes", "authorization server: codes"},
		{"oauth-grants", "authorization server: grants"},
		{"oauth-consents", "authorization server: consents"},
		{"oauth-keys", "authorization server: signing keys"},
		{"acme", "certificates by ACME"},
	}
}

// version returns the version of a kind.
func (k kind) version() int {
	of, _ := redisdb.KindOf(k.room + ":")
	return of.Version
}

// opener tells which values some keys open.
type opener struct {
	keys  map[string]*seal.Key // by room
	vault *vault.Vault
}

func newOpener(keys Keys) (*opener, error) {
	o := &opener{keys: make(map[string]*seal.Key)}
	for _, k := range kinds() {
		if k.purpose == "" {
			continue
		}
		key, err := keys.key(k.purpose)
		if err != nil {
			return nil, err
		}
		o.keys[k.room] = key
	}
	var err error
	o.vault, err = vault.New(keys.Vault, vault.Deps{Log: slog.New(slog.DiscardHandler)})
	return o, err
}

func (o *opener) close() { o.vault.Close() }

// opens reports whether the keys open an item. The error is that of a vault that does not answer.
func (o *opener) opens(ctx context.Context, i expiring.Item) (bool, error) {
	switch key := o.keys[i.Room]; {
	case i.Owner != "":
		return true, nil
	case key != nil:
		return i.Opens(key), nil
	case i.Room == vault.Room:
		return o.vault.Opens(ctx, i.Value)
	}
	return true, nil
}

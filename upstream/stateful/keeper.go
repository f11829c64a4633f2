package stateful

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// Keeper keeps what outlives this process of clients' sessions at servers: whoever goes on
// with a client's session resumes those, too. Only sessions on streamable HTTP can be
// resumed; processes and sessions on HTTP+SSE begin anew.
type Keeper interface {
	// Load returns what was saved under a name for a client's session (Call.Session), nil
	// for nothing.
	Load(ctx context.Context, session, name string) ([]byte, error)
	// Save replaces that; a nil value forgets it. Both are for nobody else to read: the value
	// has the session's id at the server, and the name is a digest of secrets that may be
	// guessed.
	Save(ctx context.Context, session, name string, value []byte) error
}

// key says whose session it is. Without a client's session it is neutral: the gateway's own
// or, where each user has a credential, one of the user. Two client sessions never share one.
type key struct {
	session string
	caps    string // what is declared, for clients whose capabilities change by request
	user    string // "" where no user has a credential of its own
}

// keeper keeps the sessions at one server.
type keeper struct {
	to     Keeper   // nil for none
	server []string // what tells the server, and the account there, from others
}

// remembered is what is saved.
type remembered struct {
	Revision string `json:"revision"`
	ID       string `json:"id"`
	// Capabilities are the server's, in a string: they stay as it wrote them.
	Capabilities string `json:"capabilities"`
}

// keeps reports whether a session is one that can be resumed.
func (p *keeper) keeps(k key, e *dialect.Era) bool { return p.to != nil && k.session != "" && !e.SSE }

// load returns what is kept under a key, nil for nothing.
func (p *keeper) load(ctx context.Context, k key) (*remembered, error) {
	value, err := p.to.Load(ctx, k.session, p.digest(k))
	if err != nil || value == nil {
		return nil, err
	}
	var r remembered
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, fmt.Errorf("reading what is kept of a session: %w", err)
	}
	if rev := wire.Lookup(r.Revision); rev == nil || !rev.Stateful || r.ID == "" {
		return nil, fmt.Errorf("a session of revision %.40q is kept", r.Revision)
	}
	return &r, nil
}

// save keeps a session; nil forgets it.
func (p *keeper) save(ctx context.Context, k key, r *remembered) error {
	var value []byte
	if r != nil {
		var err error
		if value, err = json.Marshal(r); err != nil {
			return err
		}
	}
	return p.to.Save(ctx, k.session, p.digest(k), value)
}

// digest is of what divides the sessions of a client at a server: the server, how it is
// reached, whose credential is used, what is declared.
func (p *keeper) digest(k key) string {
	hash := sha256.New()
	for _, part := range append([]string{k.caps, k.user}, p.server...) {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

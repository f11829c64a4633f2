package stateful

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// Keeper stores what outlives this process of the sessions that clients have at servers. The
// process that takes over a client's session resumes its sessions at servers, too. Only sessions on
// streamable HTTP can be resumed; processes and sessions on HTTP+SSE start over.
type Keeper interface {
	// Load returns what was saved under a name for a client's session (Call.Session), nil
	// for nothing.
	Load(ctx context.Context, session, name string) ([]byte, error)
	// Save replaces the saved value; a nil value removes it. Name and value are
	// confidential: the value contains the server's session id and cookies, and the name is a digest of
	// secrets that may be guessable.
	Save(ctx context.Context, session, name string, value []byte) error
}

// Homes has the homes of clients' sessions (home.Table).
type Homes interface {
	// Known returns the home of a session that is open here, nil for none.
	Known(home.Key) *home.Home
}

// key identifies the owner of a session. Without a client session it is neutral: the
// session belongs to the gateway or, if each user has a credential, to one user. Two client
// sessions never share one.
type key struct {
	session string
	caps    string // the declared capabilities, for clients that declare them with each request
	user    string // "" where no user has a credential of its own
}

// keeper stores the sessions at one server.
type keeper struct {
	to     Keeper   // nil for none
	server []string // distinguishes the server, and the account there
}

// remembered is the saved form of a session.
type remembered struct {
	Revision string `json:"revision"`
	ID       string `json:"id"`
	// Capabilities are the server's, in a string so that they stay byte for byte.
	Capabilities string `json:"capabilities"`
	// Cookies are those that the server had set by then.
	Cookies string `json:"cookies,omitempty"`
}

// keeps reports whether a session can be resumed.
func (p *keeper) keeps(k key, e *dialect.Era) bool { return p.to != nil && k.session != "" && !e.SSE }

// load returns the session saved under a key, nil for nothing.
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

// save stores a session; nil forgets it.
func (p *keeper) save(ctx context.Context, k key, r *remembered) error {
	var value []byte
	if r != nil {
		value, _ = json.Marshal(r) // strings always have a form in JSON
	}
	return p.to.Save(ctx, k.session, p.digest(k), value)
}

// digest identifies a session of a client by its server, how that is reached, the
// credential in use and the declared capabilities.
func (p *keeper) digest(k key) string {
	hash := sha256.New()
	for _, part := range append([]string{k.caps, k.user}, p.server...) {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash never returns an error
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

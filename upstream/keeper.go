package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
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

// remembered is what is saved.
type remembered struct {
	Revision string `json:"revision"`
	ID       string `json:"id"`
	// Capabilities are the server's, in a string: they stay as it wrote them.
	Capabilities string `json:"capabilities"`
}

// Keeps reports whether the server may keep something for a client from one call to the
// next: a session, a process, or a call that waits for its user. Until its revision is known
// it may.
func (u *Upstream) Keeps() bool {
	u.probe.mu.Lock()
	defer u.probe.mu.Unlock()
	return u.probe.known == nil || u.probe.known.rev.Stateful
}

// keeps reports whether the session of a slot is one that can be resumed.
func (u *Upstream) keeps(sl *slot, e *era) bool {
	return u.keeper != nil && sl.Key.session != "" && e.rev.Stateful && !e.sse && u.cfg.Transport == transportStreamable
}

// resume goes on with the session that is kept for a slot; nil for none, or for one that
// was lost here already. Nothing is sent but what the slot needs in it.
func (u *Upstream) resume(ctx context.Context, sl *slot, e *era) *session {
	if !u.keeps(sl, e) || sl.kept.Load() != nil {
		return nil
	}
	value, err := u.keeper.Load(ctx, sl.Key.session, u.cfg.digest(sl.Key))
	if err == nil && value == nil {
		return nil
	}
	var s *session
	if err == nil {
		s, err = u.recall(ctx, sl, e, value)
	}
	if err != nil {
		u.log.Debug("session not resumed", "error", err)
		return nil
	}
	id := s.id()
	sl.kept.Store(&id)
	s.restore(ctx)
	return s
}

// recall makes a session of what was saved of it.
func (u *Upstream) recall(ctx context.Context, sl *slot, e *era, value []byte) (*session, error) {
	var known remembered
	if err := json.Unmarshal(value, &known); err != nil {
		return nil, fmt.Errorf("reading what is kept of a session: %w", err)
	}
	rev := wire.Lookup(known.Revision)
	if rev == nil || !rev.Stateful || known.ID == "" {
		return nil, fmt.Errorf("a session of revision %.40q is kept", known.Revision)
	}
	conn, err := u.dial(ctx, sl.owner, e)
	if err != nil {
		return nil, err
	}
	conn.Resume(known.ID)
	conn.Bind(rev)
	s := u.newSession(sl, conn, rev)
	s.rootsOwed = true // they may have changed, or the server was told none
	s.learn(mcp.Object("capabilities", mcp.Raw(known.Capabilities)))
	return s, nil
}

// save keeps a session that was opened here. One that cannot be kept ends with this process.
func (u *Upstream) save(ctx context.Context, s *session, e *era) {
	id := s.id()
	if id == "" || !u.keeps(s.slot, e) {
		return
	}
	caps, _ := s.result.Member("capabilities")
	value, err := json.Marshal(remembered{s.rev.Name, id, string(caps)})
	if err == nil {
		err = u.keeper.Save(ctx, s.slot.Key.session, u.cfg.digest(s.slot.Key), value)
	}
	if err != nil {
		u.log.Debug("session not kept", "error", err)
		return
	}
	s.slot.kept.Store(&id)
}

// forget forgets what is kept of a slot's session.
func (u *Upstream) forget(sl *slot) {
	ctx, cancel := context.WithTimeout(context.Background(), dialect.Goodbye) // after the end of base, too
	defer cancel()
	if err := u.keeper.Save(ctx, sl.Key.session, u.cfg.digest(sl.Key), nil); err != nil {
		u.log.Debug("session not forgotten", "error", err)
	}
}

// id is the session's at the server, "" where it has none.
func (s *session) id() string { return s.conn.Header().Get(wire.HeaderSession) }

// digest is of what divides the sessions of a client at a server: the server, how it is
// reached, whose credential is used, what is declared.
func (c Config) digest(key poolKey) string {
	parts := []string{c.Name, c.URL, c.Revision, key.caps, key.user}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		parts = append(parts, strings.ToLower(name), string(c.Headers[name]))
	}
	parts = append(append(parts, "auth"), c.Auth.Account()...)
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

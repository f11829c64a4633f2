package upstream

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Replicas of the gateway have one session at a server for a client, whichever of them
// its calls come to. Where that is kept is Shared; here is what is. Only sessions on
// streamable HTTP can be taken up by somebody else; of all others owner.go says whose they
// are, and away.go how they are used.
//
//	join.go   a session is opened by one replica and taken up by the others
//	tend.go   that it is used, and that it ends
//	relay.go  its one standing stream, and what others have to hear of that
//	questions.go, orphans.go  what its server asks, and who answers when a replica has gone

// Place is where the session of a server is kept that belongs to a client.
type Place struct {
	// Session is Call.Session of its calls.
	Session string
	// Server is a digest of all that divides the sessions of one client: the server, how it
	// is reached, whose credential is used, what is declared. It is made with secrets that
	// may be guessed.
	Server string
	// Idle is after what time unused the session ends; 0 for one that EndSession ends.
	Idle time.Duration
}

// Kept is what is kept of a session.
type Kept struct {
	// Tag is another one for each session, "" for none. It tells nothing.
	Tag string
	// Value is what has to be known of it, its id at the server among that: a secret.
	Value []byte
}

// Turn says who opens a session.
type Turn int

const (
	// TurnTaken: it is open.
	TurnTaken Turn = iota
	// TurnOurs: this replica does.
	TurnOurs
	// TurnOthers: another one does at this moment.
	TurnOthers
	// TurnOver: nobody, for its client's session has ended.
	TurnOver
)

// Farewell says what to do with a session that this replica has no use for.
type Farewell int

const (
	// FarewellNone: others go on with it, or have ended it.
	FarewellNone Farewell = iota
	// FarewellAlone: end it; no other replica has used it.
	FarewellAlone
	// FarewellLast: end it; others have used it.
	FarewellLast
)

// Shared is what replicas of the gateway know in common. Each method is one step for all
// of them. An error says that nothing is known at the moment: each replica goes on with
// what it has. What Value says is for nobody else to read.
type Shared interface {
	// Take returns what is kept at a place, unless its tag is stale; or says who opens a
	// session. Who is to do that Puts it within lease, or Releases the place.
	Take(ctx context.Context, at Place, stale string, lease time.Duration) (Kept, Turn, error)
	// Put keeps a new session, and returns TurnOurs; or TurnTaken and the one that was there
	// first.
	Put(ctx context.Context, at Place, made Kept) (Kept, Turn, error)
	Release(ctx context.Context, at Place) error
	// Keep says that a session was used, that long ago, and returns the tag of the one that
	// holds: this one too where none was kept any more; "" when its client's session has
	// ended. stands is the replica that has the standing stream: this one for the time of
	// stand, where no other has it, or that one is gone; "" where stand is 0, which does not
	// want it, or less, which gives it back.
	Keep(ctx context.Context, at Place, made Kept, unused, stand time.Duration, gone string) (holds, stands string, err error)
	// Self is the name of this replica.
	Self() string
	// Watch returns what is closed when a replica has gone; stop ends the watching.
	Watch(replica string) (gone <-chan struct{}, stop func())
	// Present reports whether a replica is there. One of which nobody can know is.
	Present(ctx context.Context, replica string) bool
	// Life is how long what nobody Keeps or Takes is kept.
	Life(at Place) time.Duration
	// End says that this replica has no use for a session any more.
	End(ctx context.Context, at Place, tag string) (Farewell, error)
	// Claim reports whether this replica is the first to claim something.
	Claim(ctx context.Context, at Place, what string) (bool, error)
	// Tell has Upstream.Hear called at all other replicas, unless the message is lost.
	Tell(ctx context.Context, at Place, message []byte) error
	Questions
}

// maxKept bounds what is kept of a session, in bytes.
const maxKept = 256 << 10

// binding is what replicas have in common of a session; nil for one of this replica's own.
type binding struct {
	at   Place
	kept Kept
	// Guarded by the pool's lock:
	alone  bool      // the others do not know of it, or it is not known whether they do
	stands bool      // the standing stream is this replica's
	open   bool      // it is here, whosesoever it is
	said   time.Time // when they were told last
	untold bool      // they could not be told something that came here
	asked  bool      // questions of the server may wait at other replicas
}

// remembered is Kept.Value.
type remembered struct {
	Revision string `json:"revision"`
	ID       string `json:"id"`
	// Result is what the answer to initialize said of the server. JSON of the server stands
	// in a string, so that it stays as it was written.
	Result string `json:"result"`
}

// remember makes what is kept of a session that was opened here; nil where nobody else
// could take it up.
func (s *session) remember() *Kept {
	id := s.conn.Header().Get(wire.HeaderSession)
	if id == "" {
		return nil
	}
	caps, _ := s.result.Member("capabilities")
	info, _ := s.result.Member("serverInfo")
	value, err := json.Marshal(remembered{s.rev.Name, id, string(mcp.Object("capabilities", caps, "serverInfo", info))})
	if err != nil || len(value) > maxKept {
		return nil
	}
	return &Kept{Tag: rand.Text(), Value: value}
}

// recall makes a session of what is kept of it. Nothing is sent.
func (u *Upstream) recall(ctx context.Context, sl *slot, e *era, kept Kept) (*session, error) {
	var known remembered
	if err := json.Unmarshal(kept.Value, &known); err != nil {
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
	s.bound, s.adopted = &binding{at: *sl.at, kept: kept, said: time.Now()}, true
	s.learn(mcp.Raw(known.Result))
	return s, nil
}

// place returns where the session of a key is kept, nil for one that is only this
// replica's: the gateway's own, or one that nobody else can take up.
func (u *Upstream) place(key poolKey, sweeps bool, e *era) *Place {
	if u.shared == nil || key.session == "" || !e.rev.Stateful || e.sse || u.cfg.Transport != transportStreamable {
		return nil
	}
	return u.placeOf(key, sweeps)
}

func (u *Upstream) placeOf(key poolKey, sweeps bool) *Place {
	at := &Place{Session: key.session, Server: u.cfg.digest(key)}
	if sweeps {
		at.Idle = u.cfg.Timeout.Idle
	}
	return at
}

// digest is of what divides the sessions of a client at a server.
func (c Config) digest(key poolKey) string {
	parts := []string{c.Name, c.URL, c.Revision, key.caps, key.user}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		parts = append(parts, strings.ToLower(name), string(c.Headers[name]))
	}
	parts = append(append(parts, "auth"), c.Auth.Account()...)
	if len(c.Command) > 0 {
		parts = append(append(parts, "command", c.Dir), c.Command...)
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			parts = append(parts, name, string(c.Env[name]))
		}
	}
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

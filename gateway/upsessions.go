package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// upsessions is where replicas keep which session at an upstream belongs to which client.
// Whoever can use the same Redis can neither read the sessions' ids, nor put in others, nor
// find out what a place is a digest of.
type upsessions struct {
	bindings *session.RedisBindings
	mail     session.Mailbox
	key      *seal.Key
}

// place is what a place is called in Redis.
func (u *upsessions) place(at upstream.Place) session.Place {
	return session.Place{Key: at.Session, Server: u.key.Name(at.Server), Idle: at.Idle}
}

// Take returns what is kept at a place, or says who opens a session. See upstream.Shared
// for this and what follows.
func (u *upsessions) Take(ctx context.Context, at upstream.Place, stale string, lease time.Duration) (upstream.Kept, upstream.Turn, error) {
	p := u.place(at)
	b, turn, err := u.bindings.Take(ctx, p, stale, lease)
	return u.open(p, b, turn, err)
}

// Put keeps a new session.
func (u *upsessions) Put(ctx context.Context, at upstream.Place, made upstream.Kept) (upstream.Kept, upstream.Turn, error) {
	p := u.place(at)
	b, turn, err := u.bindings.Put(ctx, p, u.seal(p, made))
	return u.open(p, b, turn, err)
}

func (u *upsessions) seal(p session.Place, kept upstream.Kept) session.Binding {
	return session.Binding{Tag: kept.Tag, Value: u.key.Seal(kept.Value, p.Key, p.Server, kept.Tag)}
}

// open reads what was kept. What cannot be read, such as that of another key, has a tag
// and no more.
func (u *upsessions) open(p session.Place, b session.Binding, turn session.Turn, err error) (upstream.Kept, upstream.Turn, error) {
	if err != nil {
		return upstream.Kept{}, 0, err
	}
	kept := upstream.Kept{Tag: b.Tag}
	if turn == session.Taken {
		kept.Value, _ = u.key.Open(b.Value, p.Key, p.Server, b.Tag)
	}
	return kept, turns[turn], nil
}

var turns = map[session.Turn]upstream.Turn{
	session.Taken: upstream.TurnTaken, session.Yours: upstream.TurnOurs, session.Others: upstream.TurnOthers, session.Over: upstream.TurnOver,
}

// Release says that no session will be opened.
func (u *upsessions) Release(ctx context.Context, at upstream.Place) error {
	return u.bindings.Release(ctx, u.place(at))
}

// Keep says that a session is used.
func (u *upsessions) Keep(ctx context.Context, at upstream.Place, made upstream.Kept, unused, stand time.Duration, gone string) (holds, stands string, err error) {
	p := u.place(at)
	return u.bindings.Keep(ctx, p, u.seal(p, made), unused, stand, gone)
}

// Self is the name of this replica.
func (u *upsessions) Self() string { return u.mail.Self() }

// Watch tells when a replica has gone.
func (u *upsessions) Watch(replica string) (gone <-chan struct{}, stop func()) {
	return u.mail.Watch(replica)
}

// Present reports whether a replica is there.
func (u *upsessions) Present(ctx context.Context, replica string) bool {
	return u.mail.Present(ctx, replica)
}

// Life is how long a session is kept that nobody uses.
func (u *upsessions) Life(at upstream.Place) time.Duration { return u.bindings.Life(u.place(at)) }

// End says that this replica has no use for a session any more.
func (u *upsessions) End(ctx context.Context, at upstream.Place, tag string) (upstream.Farewell, error) {
	f, err := u.bindings.End(ctx, u.place(at), tag)
	return farewells[f], err
}

var farewells = map[session.Farewell]upstream.Farewell{
	session.Kept: upstream.FarewellNone, session.Alone: upstream.FarewellAlone, session.Last: upstream.FarewellLast,
}

// Claim reports whether this replica is the first to claim something.
func (u *upsessions) Claim(ctx context.Context, at upstream.Place, what string) (bool, error) {
	return u.bindings.Claim(ctx, u.place(at), u.key.Name("claim", what))
}

// told is what replicas tell each other of a session.
type told struct {
	Session string `json:"session"`
	Server  string `json:"server"`
	Message []byte `json:"message"`
}

// Tell tells the other replicas something of a session.
func (u *upsessions) Tell(ctx context.Context, at upstream.Place, message []byte) error {
	text, err := json.Marshal(told{at.Session, at.Server, message})
	if err != nil {
		return err
	}
	return u.bindings.Tell(ctx, text)
}

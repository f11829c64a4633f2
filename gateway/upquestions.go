package gateway

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/session"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// questionKey is what the key of a question is called in Redis.
func (u *upsessions) questionKey(key string) string { return u.key.Name("question", key) }

// Ask keeps a question of an upstream that waits here. See upstream.Questions for this and
// what follows.
func (u *upsessions) Ask(ctx context.Context, at upstream.Place, key string, question []byte) error {
	p, key := u.place(at), u.questionKey(key)
	return u.bindings.Ask(ctx, p, key, u.key.Seal(question, "question", p.Key, p.Server, key))
}

// Answered forgets a question, and reports whether this replica is to answer it.
func (u *upsessions) Answered(ctx context.Context, at upstream.Place, key string) (ours bool, err error) {
	return u.bindings.Answered(ctx, u.place(at), u.questionKey(key))
}

// Asked returns the questions that wait at other replicas, but those that cannot be read.
func (u *upsessions) Asked(ctx context.Context, at upstream.Place) (all []upstream.Asked, err error) {
	p := u.place(at)
	kept, err := u.bindings.Asked(ctx, p)
	for _, q := range kept {
		if text, err := u.key.Open(q.Value, "question", p.Key, p.Server, q.Key); err == nil {
			all = append(all, upstream.Asked{Key: q.Key, Replica: q.Replica, Question: text})
		}
	}
	return all, err
}

// Inherit makes a question of a replica that has gone this replica's.
func (u *upsessions) Inherit(ctx context.Context, at upstream.Place, q upstream.Asked) (ours bool, err error) {
	return u.bindings.Inherit(ctx, u.place(at), session.Question{Key: q.Key, Replica: q.Replica})
}

// Settle says that a question that was inherited has its answer. Its key is Asked.Key.
func (u *upsessions) Settle(ctx context.Context, at upstream.Place, key string) error {
	return u.bindings.Settle(ctx, u.place(at), key)
}

package upstream

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// joinWait bounds how long a replica waits for another one to open a session. Then it
	// opens one itself; the first to be kept is that of all.
	joinWait = 5 * time.Second
	// firstLook and lastLook are how often it looks.
	firstLook = 10 * time.Millisecond
	lastLook  = 200 * time.Millisecond
	// maxLost bounds how many sessions may turn out to be lost in the course of a call.
	maxLost = 3
)

// joinSession opens the session of a slot, or takes up the one that another replica has
// opened for the same client.
func (u *Upstream) joinSession(ctx context.Context, sl *slot, e *era) (*session, error) {
	at := sl.at
	if at == nil {
		return u.openSession(ctx, sl, e)
	}
	stale := u.pool.staleOf(sl)
	waiting := time.NewTimer(joinWait)
	defer waiting.Stop()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		kept, turn, err := u.shared.Take(ctx, *at, stale, u.cfg.Timeout.Connect)
		switch {
		case err != nil: // each for itself, until it is known again
			return u.openSession(ctx, sl, e)
		case turn == TurnOver:
			return nil, transport.ErrEnded
		case turn == TurnOurs:
			s, err := u.openSession(ctx, sl, e)
			if err != nil || s.bound == nil {
				_ = u.shared.Release(context.WithoutCancel(ctx), *at) // or its time ends it
			}
			return s, err
		case turn == TurnTaken:
			s, err := u.adopt(ctx, sl, e, kept)
			if err == nil {
				return s, nil
			}
			u.log.Warn("the session of another replica cannot be gone on with", "error", err)
			stale = kept.Tag
		}
		select {
		case <-time.After(pause):
		case <-waiting.C:
			return u.openSession(ctx, sl, e)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// adopt goes on with a session of another replica. What the slot had, such as
// subscriptions, is brought there.
func (u *Upstream) adopt(ctx context.Context, sl *slot, e *era, kept Kept) (*session, error) {
	s, err := u.recall(ctx, sl, e, kept)
	if err != nil {
		return nil, err
	}
	s.restore(ctx)
	u.pool.tendSoon()
	if s.declared.any() {
		u.spawn(func() { u.inherit([]*session{s}, "") })
	}
	return s, nil
}

// share makes a session that was just opened that of all replicas, and returns the one to
// go on with: another replica may have been first.
func (u *Upstream) share(ctx context.Context, s *session, e *era) (*session, error) {
	sl, made := s.slot, s.remember()
	if made == nil {
		return s, nil
	}
	s.bound = &binding{at: *sl.at, kept: *made, said: time.Now()}
	kept, turn, err := u.shared.Put(ctx, *sl.at, *made)
	if err != nil || turn == TurnOurs {
		s.bound.alone = err != nil
		u.pool.tendSoon()
		return s, nil
	}
	var first *session
	if err = transport.ErrEnded; turn == TurnTaken {
		if first, err = u.recall(ctx, sl, e, kept); err == nil {
			u.pool.tendSoon()
		}
	}
	s.cancel()
	u.spawn(func() { closeConn(s.conn) })
	return first, err
}

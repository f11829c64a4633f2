package cluster

import (
	"context"
	"time"
)

// sweeps is how often homes are looked through in the time for which Redis keeps one that
// nobody uses.
const sweeps = 10

// sweep has Redis keep the homes that are used, and forgets the others, until ctx is over.
// When the lease has ended meanwhile it asks at once for all of them: what others have taken
// over must not run here too, and what Redis has lost must not go to whoever asks first.
func (s *homes) sweep(ctx context.Context) {
	var lapsed chan struct{} // never
	if s.members != nil {
		lapsed = s.members.lapsed
	}
	tick := time.NewTicker(max(s.idle/sweeps, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.keepAll(ctx)
		case <-lapsed:
			used, quiet := s.sorted()
			s.keepThese(ctx, append(used, quiet...))
		}
	}
}

// keepAll has Redis keep the homes that were used since it last heard of them, or still are.
// Where it does not answer there is time: it keeps them ten times as long.
func (s *homes) keepAll(ctx context.Context) {
	used, quiet := s.sorted()
	for _, x := range quiet {
		if s.inUse(x.key) {
			used = append(used, x)
		} else {
			s.forget(x)
		}
	}
	s.keepThese(ctx, used)
}

func (s *homes) keepThese(ctx context.Context, homes []*held) {
	for _, x := range homes {
		if ctx.Err() != nil || !s.keep(ctx, x) {
			return
		}
	}
}

// sorted divides the homes into those that were used since Redis last heard of them, and
// those that were not.
func (s *homes) sorted() (used, quiet []*held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.held {
		if x.used > x.kept {
			used = append(used, x)
		} else {
			quiet = append(quiet, x)
		}
	}
	return used, quiet
}

// keep moves on when a home ends in Redis, and reports whether Redis could be asked. One that
// Redis has dropped is claimed anew, where it needs no record: that is gone, too.
func (s *homes) keep(ctx context.Context, x *held) bool {
	s.mu.Lock()
	token := x.token
	s.mu.Unlock()
	now := s.now()
	generation, _ := s.certain()
	got, err := s.db.Run(ctx, s.scripts.keep, []string{x.redisKey}, token, s.idle.Milliseconds())
	if err != nil {
		return false
	}
	s.mu.Lock()
	same := s.held[x.key] == x && x.token == token
	switch {
	case !same:
	case got == int64(1):
		x.used, x.kept, x.generation = max(x.used, now), now, generation
	case got == nil: // it is asked for again before it is served
		x.generation = 0
	}
	s.mu.Unlock()
	switch {
	case !same:
	case got == int64(0):
		s.lose(x.key)
	case got == nil && !x.record:
		_, err = s.find(ctx, readKey(x.key), x.key)
	}
	return err == nil
}

// forget forgets a home that was not used for so long that Redis has dropped it, or will.
func (s *homes) forget(x *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[x.key] == x && s.now()-x.used > s.idle {
		delete(s.held, x.key)
		s.count.homes.Set(float64(len(s.held)))
	}
}

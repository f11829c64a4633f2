package cluster

import (
	"context"
	"time"
)

// sweeps is how often homes are swept during the time for which Redis keeps an unused home.
const sweeps = 10

// sweep keeps the used homes in Redis and forgets the others, until ctx ends. When the lease
// is renewed after a lapse, it asks Redis for all homes at once: those that others have taken
// over must not run here too, and those that Redis has lost must not go to whoever asks first.
func (s *homes) sweep(ctx context.Context) {
	var lapsed chan struct{} // without other replicas, it never receives
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

// keepAll renews in Redis the homes that were used since it was last told, or are still in
// use. If Redis does not answer, there is time: it keeps homes ten times as long as a sweep's
// interval.
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

// sorted separates the homes that were used since Redis was last told from those that were
// not.
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

// keep renews a home in Redis, and reports whether Redis answered. A home that Redis has
// dropped is claimed again if it needs no record; otherwise its record is gone, too.
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
	case got == nil: // it is looked up again before it is served, or forgotten
		x.generation, x.kept = 0, x.used
	}
	s.mu.Unlock()
	switch {
	case !same:
	case got == int64(0):
		s.lose(x.key)
	case got == nil && !x.record:
		_, err = s.ask(ctx, readKey(x.key), x.key)
	}
	return err == nil
}

// forget forgets a home that was unused for so long that Redis has dropped it, or will. Its record
// is gone by then: if another replica has ended it, after a takeover of which this one never heard,
// something of it may still be held here.
func (s *homes) forget(x *held) {
	s.mu.Lock()
	over := s.held[x.key] == x && s.now()-x.used > s.idle
	if over {
		s.remove(x)
	}
	s.mu.Unlock()
	if over && x.record {
		s.onLost(x.key)
	}
}

package outbound

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// scheme of RFC 6750 §2.1.
const scheme = "Bearer "

const (
	// unknownLife is how long a token is used if its issuer did not say.
	unknownLife = 5 * time.Minute
	// longestLife is how long a token is used at most.
	longestLife = 24 * time.Hour
	// betweenForced is how often a token is replaced because the upstream refused it: an
	// upstream that refuses every token must not cost the issuer more than that.
	betweenForced = 10 * time.Second
)

// token is one that can be used until dead, and should be replaced from renew on.
type token struct {
	value       string
	stamp       uint64 // tells it from others
	renew, dead time.Time
}

// life returns when to renew a token that was requested at start, and when to stop using it.
// It is renewed a tenth to a fifth of its life before the end, at most 5 minutes, at random,
// so that replicas do not do it together.
func life(start time.Time, lifetime time.Duration, end time.Time) (renew, dead time.Time) {
	if lifetime <= 0 {
		lifetime = unknownLife
	}
	lifetime = min(lifetime, longestLife)
	early := min(lifetime/10, 150*time.Second)
	early += time.Duration(rand.Int64N(int64(early) + 1))
	renew = start.Add(lifetime - early)
	dead = start.Add(lifetime - min(lifetime/20, 10*time.Second))
	if !end.IsZero() && end.Before(dead) {
		dead = end
	}
	return renew, dead
}

// source keeps one token: that of the gateway, or that of one user.
type source struct {
	ask   func(context.Context) (answer, error) // errors are an *Error
	owner *Credentials
	end   time.Time // when the user's own proof ends; zero for never

	mu       sync.Mutex // guards the fields below
	token    *token
	fetching *fetching
	pause    pause
	forced   time.Time // when a refused token was last dropped
}

// fetching is one request that several callers wait for.
type fetching struct {
	done  chan struct{}
	token *token
	err   error
}

// get returns a token. While one that should be renewed is still good, get returns it and
// fetches another one.
func (s *source) get(ctx context.Context) (*token, error) {
	now := time.Now()
	s.mu.Lock()
	tok := s.token
	if tok != nil && !now.Before(tok.dead) {
		tok = nil
	}
	if tok != nil && now.Before(tok.renew) {
		s.mu.Unlock()
		return tok, nil
	}
	f, err := s.fetch(now)
	s.mu.Unlock()
	switch {
	case tok != nil:
		return tok, nil
	case err != nil:
		return nil, err
	}
	select {
	case <-f.done:
		return f.token, f.err
	case <-ctx.Done():
		return nil, silent(context.Cause(ctx))
	}
}

// fetch joins the request that is under way, or begins one unless it is too early. s.mu is
// held.
func (s *source) fetch(now time.Time) (*fetching, error) {
	if s.fetching != nil {
		return s.fetching, nil
	}
	if !s.end.IsZero() && !now.Before(s.end) {
		return nil, &Error{Why: "your sign-in has expired; sign in again"}
	}
	if !s.pause.over(now) {
		return nil, s.pause.err
	}
	if err := s.owner.paused(now); err != nil {
		return nil, err
	}
	f := &fetching{done: make(chan struct{})}
	if !s.owner.spawn(func(ctx context.Context) { s.run(ctx, f) }) {
		return nil, &Error{Why: "the gateway is being stopped; try again"}
	}
	s.fetching = f
	return f, nil
}

// run makes the request, apart from the callers, who may leave.
func (s *source) run(ctx context.Context, f *fetching) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	start := time.Now()
	a, err := s.ask(ctx)
	s.mu.Lock()
	s.fetching = nil
	if failure, ok := errors.AsType[*Error](err); err != nil {
		f.err = err
		if ok && !failure.shared { // what is shared the endpoint remembers
			s.pause.failed(time.Now(), err, 0)
		}
	} else {
		renew, dead := life(start, a.lifetime, s.end)
		f.token = &token{value: scheme + a.token, stamp: s.owner.stamps.Add(1), renew: renew, dead: dead}
		s.token = f.token
		s.pause.reset()
	}
	s.mu.Unlock()
	close(f.done)
}

// current returns the token that is kept, "" for none.
func (s *source) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == nil {
		return ""
	}
	return strings.TrimPrefix(s.token.value, scheme)
}

// refused drops the token that the upstream refused. It reports whether there is, or
// may be, another one.
func (s *source) refused(stamp uint64) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == nil || s.token.stamp != stamp {
		return true // replaced since
	}
	if !s.forced.IsZero() && now.Sub(s.forced) < betweenForced {
		return false
	}
	s.forced = now
	s.token = nil
	return true
}

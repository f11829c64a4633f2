package session

import (
	"context"
	"time"
)

// NewRedisAt makes a store with a clock of the test's.
func NewRedisAt(cfg Config, deps Deps, clock func() time.Duration) (*Redis, error) {
	return newRedis(cfg, deps, clock)
}

// Sweep does now what the store does from time to time.
func (s *Redis) Sweep() { s.sweep(context.Background()) }

// Decode reads what Redis holds for a session.
func Decode(value, user, id string) (*Record, error) { return decode([]byte(value), name{user, id}) }

func (r *logRoom) held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}

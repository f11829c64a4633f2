package session

import (
	"context"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// NewRedisAt makes a store with the test's clock.
func NewRedisAt(cfg Config, deps Deps, clock func() time.Duration) (*Redis, error) {
	deps.clock = clock
	return NewRedis(cfg, deps)
}

// Sweep runs a sweep now.
func (s *Redis) Sweep() { s.homes.Sweep(context.Background(), false) }

// Decode decodes the value that Redis has for a session.
func Decode(value, user, id string) (*Record, error) {
	return decode([]byte(value), home.Key{User: user, ID: id})
}

package session

import "time"

// NewRedisAt makes a store with a clock of the test's.
func NewRedisAt(cfg Config, deps Deps, clock func() time.Duration) (*Redis, error) {
	return newRedis(cfg, deps, clock)
}

// Sweep does now what the store does from time to time.
func (s *Redis) Sweep() {
	s.endLate()
	s.wakeAll()
	s.sweep()
	s.lookForRoom()
}

// Beat does now what the store does from time to time, and returns how long a lease lasts.
func (s *Redis) Beat() time.Duration {
	s.presence.beat()
	return leaseTime
}

// Collect fetches a large letter that is said to wait at a key.
func (s *Redis) Collect(key string) { s.collect(key, true, s.onMail) }

// Decode reads what Redis holds for a session.
func Decode(value, user, id string) (*Record, error) { return decode([]byte(value), name{user, id}) }

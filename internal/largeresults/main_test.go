package largeresults

import (
	"context"
	"testing"
	"time"
)

// store is either store.
type store interface {
	Keep(ctx context.Context, user, id string, value []byte, ttl time.Duration) (kept bool, err error)
	Load(ctx context.Context, user, id string) ([]byte, error)
}

func keep(t *testing.T, s store, user, id, value string, ttl time.Duration, want bool) {
	t.Helper()
	if kept, err := s.Keep(t.Context(), user, id, []byte(value), ttl); kept != want || err != nil {
		t.Errorf("%s %s of %d bytes: kept %v, %v", user, id, len(value), kept, err)
	}
}

func want(t *testing.T, s store, user, id, value string) {
	t.Helper()
	if got, err := s.Load(t.Context(), user, id); string(got) != value || err != nil {
		t.Errorf("%s %s: %d bytes, %v; want %d", user, id, len(got), err, len(value))
	}
}

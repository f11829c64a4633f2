package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
)

// Of two who ask Redis for a session that is not known here, the one who gets no answer
// does not take the other's away: that client would be told that its session is gone.
func TestWhoAsksIsAnswered(t *testing.T) {
	s, err := newRedis(Config{Store: StoreRedis, Redis: redisdb.Config{URL: "redis://127.0.0.1:1"}, Key: "0123456789abcdef0123456789abcdef"},
		Deps{}, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := name{"alice", "AAAAAAAAAAAAAAAAAAAAAAAAAA"}
	h, err := s.hold(n) // the answer is on its way
	if err != nil {
		t.Fatal(err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(left, n.user, n.id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
	if !h.learn(kept{record: &Record{User: n.user, ID: n.id}}, h.asked(), 0) {
		t.Error("H/178 a session that is there is said not to be")
	}
	s.letGo(h)
	if s.copyOf(n) != h {
		t.Error("what is known is forgotten")
	}
	other := name{"bob", n.id}
	if _, err := s.Get(t.Context(), other.user, other.id); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
	if s.Known() != 1 {
		t.Errorf("%d sessions are known, of one", s.Known())
	}
}

package session

import (
	"errors"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
)

// H/178: who has ended a session, and is asked again by the client library because the
// answer did not come in time, is not told that there was none.
func TestDeleteAskedTwice(t *testing.T) {
	server := redistest.Start(t)
	s, err := NewRedis(Config{Store: StoreRedis, Redis: redisdb.Config{URL: mcp.Secret(server.URL())}, Key: "0123456789abcdef0123456789abcdef"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	record, err := s.Create(t.Context(), Record{User: "ann", Revision: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	n := name{record.User, record.ID}
	for _, ask := range []struct {
		what, word string
		want       int64
	}{{"at first", "one", 1}, {"again", "one", 1}, {"another", "two", 0}, {"the first once more", "one", 1}} {
		if got, err := s.remove(t.Context(), n, ask.word); err != nil || got != ask.want {
			t.Errorf("H/178 %s: %v %v, want %d", ask.what, got, err, ask.want)
		}
	}
	if err := s.Delete(t.Context(), record.User, record.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("who deletes what another has deleted: %v", err)
	}
	server.Advance(t, 2*endedTime)
	if got, err := s.remove(t.Context(), n, "one"); err != nil || got != int64(0) {
		t.Errorf("what is long ended is still known: %v %v", got, err)
	}
}

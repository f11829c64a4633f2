package live

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestRequestsOfOneUser: one user's requests leave connections to others, from however many
// clients they come. Without authentication there is one user, and no such bound.
func TestRequestsOfOneUser(t *testing.T) {
	r := NewPerUser(3)
	caller := func(user, client string) *mcp.Caller {
		return &mcp.Caller{Issuer: "https://issuer", Subject: user, ClientID: client}
	}
	for _, client := range []string{"a", "b", "c"} {
		if !r.Take(caller("alice", client)) {
			t.Fatal("a request that may be")
		}
	}
	if r.Take(caller("alice", "d")) {
		t.Error("one too many may be")
	}
	if !r.Take(caller("bob", "a")) {
		t.Error("another user's may not be")
	}
	r.Give(caller("alice", "a"))
	if !r.Take(caller("alice", "d")) || r.Take(caller("alice", "e")) {
		t.Error("what has ended leaves other room than it took")
	}
	for range 10 {
		if !r.Take(&mcp.Caller{}) {
			t.Error("without authentication")
		}
	}
	for range 3 {
		r.Give(caller("alice", "a"))
	}
	r.Give(caller("bob", "a"))
	for i := range r.shards {
		if len(r.shards[i].has) != 0 {
			t.Error("users are known who have no request")
		}
	}
}

package front

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestRequestsOfOneUser: one user's requests leave connections to others, whatever clients
// they come from; without authentication there is one user, and no such bound.
func TestRequestsOfOneUser(t *testing.T) {
	var r rush
	r.init(3)
	caller := func(user, client string) *mcp.Caller {
		return &mcp.Caller{Issuer: "https://issuer", Subject: user, ClientID: client}
	}
	for _, client := range []string{"a", "b", "c"} {
		if !r.begin(caller("alice", client)) {
			t.Fatal("a request that may be")
		}
	}
	if r.begin(caller("alice", "d")) {
		t.Error("one too many may be")
	}
	if !r.begin(caller("bob", "a")) {
		t.Error("another user's may not be")
	}
	r.end(caller("alice", "a"))
	if !r.begin(caller("alice", "d")) || r.begin(caller("alice", "e")) {
		t.Error("what has ended leaves other room than it took")
	}
	for range 10 {
		if !r.begin(&mcp.Caller{}) {
			t.Error("without authentication")
		}
	}
	for range 3 {
		r.end(caller("alice", "a"))
	}
	r.end(caller("bob", "a"))
	for i := range r.shards {
		if len(r.shards[i].of) != 0 {
			t.Error("users are known who have no request")
		}
	}
}

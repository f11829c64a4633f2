package upstream

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// What a server that clients share says of a resource is for those who subscribed to it.
// In a session of one client it may mean a part of what was subscribed to otherwise.
func TestUpdatesOfASharedSessionAreForSubscribersOnly(t *testing.T) {
	for _, shared := range []bool{true, false} {
		k := newKeep(shared)
		bob := &listening{wake: make(chan struct{}, 1), want: mcp.Filter{URIs: []string{"docs://bob"}}}
		k.add(bob)
		k.uris["docs://bob"] = 1
		said := func(uri string) int {
			k.event(wire.Message{Kind: wire.Notification, Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
			events, _ := bob.take()
			return len(events)
		}
		if n := said("docs://bob/part"); n != 1 {
			t.Errorf("shared %t: %d events of his own resource", shared, n)
		}
		want := 1
		if shared {
			want = 0
		}
		if n := said("docs://alice"); n != want {
			t.Errorf("shared %t: %d events of a resource that nobody subscribed to, want %d", shared, n, want)
		}
	}
}

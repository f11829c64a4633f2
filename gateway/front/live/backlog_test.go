package live

import (
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestBacklog(t *testing.T) {
	var b backlog
	for i := range maxUpdated + 1 {
		e := mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(fmt.Sprint(i)))}
		if ok := b.put(e); ok != (i < maxUpdated) {
			t.Fatalf("event %d: %t", i, ok)
		}
		if !b.put(mcp.Event{Method: mcp.NoteToolsListChanged}) {
			t.Fatal("a change of lists found no room")
		}
	}
	if n := len(b.take()); n != maxUpdated+1 {
		t.Errorf("%d events", n)
	}
	for i := range 2 * maxCompleted {
		b.put(mcp.Event{Method: mcp.NoteElicitationComplete, Params: mcp.Object("elicitationId", mcp.String(fmt.Sprint(i)))})
	}
	if n := len(b.take()); n != maxCompleted {
		t.Errorf("%d URLs", n)
	}
	if n := len(b.take()); n != 0 {
		t.Errorf("%d events are left", n)
	}
}

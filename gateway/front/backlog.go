package front

import (
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxUpdated bounds the URIs of updated resources that wait for a stream.
const maxUpdated = 1000

// backlog holds the events that wait for a stream, each of them once: of a change
// it matters that it was, not how often.
type backlog struct {
	changed []string // methods of list_changed notifications
	updated []string // URIs, in the order of their first update
}

// put adds an event; false when there is no room for it.
func (b *backlog) put(e mcp.Event) bool {
	if e.Method != mcp.NoteResourceUpdated {
		if !slices.Contains(b.changed, e.Method) {
			b.changed = append(b.changed, e.Method)
		}
		return true
	}
	uri, _ := e.Params.Member("uri")
	if slices.Contains(b.updated, uri.Text()) {
		return true
	}
	if len(b.updated) == maxUpdated {
		return false
	}
	b.updated = append(b.updated, uri.Text())
	return true
}

// take returns the events and forgets them.
func (b *backlog) take() (events []mcp.Event) {
	for _, method := range b.changed {
		events = append(events, mcp.Event{Method: method})
	}
	for _, uri := range b.updated {
		events = append(events, mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))})
	}
	*b = backlog{}
	return events
}

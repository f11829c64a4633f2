package live

import (
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Bounds of the events that wait for a stream: URIs of updated resources, and ids of completed
// elicitations.
const (
	maxUpdated   = 1000
	maxCompleted = 100
)

// backlog holds the events that wait for a stream, each once: clients need to know that something
// changed, not how often.
type backlog struct {
	changed   []string // methods of list_changed notifications
	updated   []string // URIs, in the order of their first update
	completed []string // ids of elicitations
}

// put adds an event. It returns false if there is no room for it.
func (b *backlog) put(e mcp.Event) bool {
	switch e.Method {
	case mcp.NoteResourceUpdated:
		return addOnce(&b.updated, e.Params.At("uri").Text(), maxUpdated)
	case mcp.NoteElicitationComplete:
		return addOnce(&b.completed, e.Params.At("elicitationId").Text(), maxCompleted)
	}
	return addOnce(&b.changed, e.Method, maxUpdated)
}

// addOnce adds an element that is not there yet. It returns false if there is no room for it.
func addOnce(list *[]string, what string, most int) bool {
	if slices.Contains(*list, what) {
		return true
	}
	if len(*list) == most {
		return false
	}
	*list = append(*list, what)
	return true
}

// take removes the events and returns them.
func (b *backlog) take() (events []mcp.Event) {
	for _, method := range b.changed {
		events = append(events, mcp.Event{Method: method})
	}
	for _, uri := range b.updated {
		events = append(events, mcp.ResourceUpdated(uri))
	}
	for _, id := range b.completed {
		events = append(events, mcp.Event{Method: mcp.NoteElicitationComplete,
			Params: mcp.Object("elicitationId", mcp.String(id))})
	}
	*b = backlog{}
	return events
}

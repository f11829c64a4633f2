package policy

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// sightings are the lists that a subscriptions/listen call watches, as its caller saw
// them last. That a list changed is told to those who can see it: for all others there
// is nothing new, and that something hidden changed is not theirs to know.
type sightings struct {
	guard *Guard
	call  *mcp.Call
	next  mcp.Handler

	mu   sync.Mutex // guards last; not held while a list is looked at
	last map[string]uint64
}

// listsOf returns the methods whose answers a notification is about, none for other
// notifications.
func listsOf(note string) []string {
	switch note {
	case mcp.NoteToolsListChanged:
		return []string{mcp.MethodToolsList}
	case mcp.NotePromptsListChanged:
		return []string{mcp.MethodPromptsList}
	case mcp.NoteResourcesListChanged:
		return []string{mcp.MethodResourcesList, mcp.MethodResourceTemplatesList}
	case mcp.NoteSkillsListChanged:
		return []string{mcp.MethodSkillsList}
	}
	return nil
}

// begin looks at the lists of which the caller is going to hear.
func (s *sightings) begin(ctx context.Context, acknowledged mcp.Raw) {
	honoured, _ := acknowledged.Member("notifications")
	for member, note := range map[string]string{
		"toolsListChanged": mcp.NoteToolsListChanged, "promptsListChanged": mcp.NotePromptsListChanged, "resourcesListChanged": mcp.NoteResourcesListChanged,
		"skillsListChanged": mcp.NoteSkillsListChanged,
	} {
		if wanted, _ := honoured.Member(member); wanted.IsTrue() {
			s.changed(ctx, note)
		}
	}
}

// changed reports whether the caller sees other lists than the last time. When in doubt
// they do.
func (s *sightings) changed(ctx context.Context, note string) bool {
	now, ok := s.look(ctx, note)
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.last[note]
	if !ok {
		delete(s.last, note)
		return true
	}
	s.last[note] = now
	return !known || now != before
}

// look sums up what the caller sees of the lists that a notification is about.
func (s *sightings) look(ctx context.Context, note string) (sum uint64, ok bool) {
	for _, method := range listsOf(note) {
		sum = sum*sumStep + 1 // one list ends where the next begins
		list := bare(s.call)
		list.Method, list.Params = method, nil
		list.Notify = func(mcp.Event) {}
		for {
			reply, err := s.guard.list(ctx, list, s.next)
			if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
				break // no list is an empty one
			}
			if err != nil || reply == nil || reply.List == nil {
				return 0, false
			}
			sum = addTo(sum, reply.List)
			if reply.List.Next == nil {
				break
			}
			list = bare(list)
			list.Params = mcp.Object("cursor", mcp.String(*reply.List.Next))
		}
	}
	return sum, true
}

// sumSeed is that of all sums: they are compared within this process only. sumStep is
// odd and otherwise of no meaning.
var sumSeed = maphash.MakeSeed()

const sumStep = 0x9e3779b97f4a7c15

// addTo adds the items of a page to the sum of those before it. Where one page ends
// makes no difference: that depends on items which are hidden, too. A page is summed up
// once.
func addTo(sum uint64, page *mcp.List) uint64 {
	memo := page.Render("sum", func(l *mcp.List) []byte {
		sum, shift := uint64(0), uint64(1)
		for _, item := range l.Items {
			sum = sum*sumStep + maphash.Bytes(sumSeed, item.Raw)
			shift *= sumStep
		}
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, sum), shift)
	})
	return sum*binary.BigEndian.Uint64(memo[8:]) + binary.BigEndian.Uint64(memo)
}

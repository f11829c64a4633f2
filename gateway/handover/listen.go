package handover

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// spread is the time over which those who listen move to a new way, so that a reload is
// no burst of work.
const spread = 500 * time.Millisecond

// listening is a subscriptions/listen call on its way from way to way.
type listening struct {
	call  *mcp.Call
	acked mcp.Raw // what was acknowledged to the client, nil before
}

// listen answers subscriptions/listen until the client or the last way ends it. If callers
// are authenticated differently on a new way (Way.Callers), it is ended in good order: the
// client listens again, and says anew who it is.
func (s *Switch) listen(ctx context.Context, c *mcp.Call, way *Way) (*mcp.Reply, error) {
	l := &listening{call: c}
	var before *Way
	for {
		reply, err := way.Handler.Handle(ctx, l.on(ctx, before, way))
		next := s.now.Load()
		if ctx.Err() != nil || next == way {
			return reply, err
		}
		if next.Callers != way.Callers {
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		}
		if l.acked != nil {
			before = way
			pause(ctx)
			next = s.now.Load()
		}
		way = next
	}
}

func pause(ctx context.Context) {
	timer := time.NewTimer(rand.N(spread))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// on returns the call as it is made on a way, after the way before, nil for the first.
func (l *listening) on(ctx context.Context, before, way *Way) *mcp.Call {
	call := l.call.Clone()
	if before != nil { // no more than what was acknowledged
		call.Params = call.Params.With("notifications", l.acked)
	}
	call.Notify = func(e mcp.Event) {
		switch {
		case e.Method != mcp.NoteAcknowledged:
		case before != nil:
			l.compare(ctx, before, way, e.Params)
			return
		default:
			acked, _ := e.Params.Member("notifications")
			l.acked = mcp.Raw(append([]byte(nil), acked...))
		}
		l.call.Notify(e)
	}
	return call
}

// compare tells the client which lists look different to it on the new way. What became
// of a resource between the two nobody knows, so each counts as updated.
func (l *listening) compare(ctx context.Context, before, way *Way, acked mcp.Raw) {
	for _, list := range lists() {
		wanted, _ := l.acked.Member(list.filter)
		if !wanted.IsTrue() {
			continue
		}
		was, knownBefore := l.sum(ctx, before.Lists, list.methods)
		is, known := l.sum(ctx, way.Lists, list.methods)
		if !known || !knownBefore || was != is {
			l.call.Notify(mcp.Event{Method: list.note, Params: mcp.Raw(`{}`)})
		}
	}
	honoured, _ := acked.Member("notifications")
	uris, _ := honoured.Member("resourceSubscriptions")
	uris.Elements(func(uri mcp.Raw) bool {
		l.call.Notify(mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", uri)})
		return true
	})
}

type list struct {
	filter, note string
	methods      []string
}

func lists() []list {
	return []list{
		{"toolsListChanged", mcp.NoteToolsListChanged, []string{mcp.MethodToolsList}},
		{"promptsListChanged", mcp.NotePromptsListChanged, []string{mcp.MethodPromptsList}},
		{"skillsListChanged", mcp.NoteSkillsListChanged, []string{mcp.MethodSkillsList}},
		{"resourcesListChanged", mcp.NoteResourcesListChanged, []string{mcp.MethodResourcesList, mcp.MethodResourceTemplatesList}},
	}
}

// sumSeed is that of all sums: they are compared within this process only.
var sumSeed = maphash.MakeSeed()

// sum sums up what the caller sees of lists. A list that does not exist is empty.
func (l *listening) sum(ctx context.Context, from mcp.Handler, methods []string) (sum uint64, ok bool) {
	var all maphash.Hash
	all.SetSeed(sumSeed)
	for _, method := range methods {
		var params mcp.Raw
		for {
			call := l.call.Clone()
			call.Method, call.Params, call.Notify = method, params, func(mcp.Event) {}
			reply, err := from.Handle(ctx, call)
			if errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
				break
			}
			if err != nil || reply == nil || reply.List == nil {
				return 0, false
			}
			for _, item := range reply.List.Items {
				all.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(item.Raw))))
				all.Write(item.Raw)
			}
			if reply.List.Next == nil {
				break
			}
			params = mcp.Object("cursor", mcp.String(*reply.List.Next))
		}
		all.WriteByte(0)
	}
	return all.Sum64(), true
}

package front

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A session is listened for from its first stream on: what changes before would cost a
// listener for each session, and many never open a stream. So it is remembered what lists
// the client has, and its first listener tells which of them are others by then.

// listSeed is that of all sums of lists, which never leave this process.
var listSeed = maphash.MakeSeed()

// changesOf returns the notification that a list has changed, "" for what is no list.
func changesOf(method string) string {
	switch method {
	case mcp.MethodToolsList:
		return mcp.NoteToolsListChanged
	case mcp.MethodPromptsList:
		return mcp.NotePromptsListChanged
	case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
		return mcp.NoteResourcesListChanged
	case mcp.MethodSkillsList:
		return mcp.NoteSkillsListChanged
	}
	return ""
}

// sumOf sums up the items of a page, once for each page that there is.
func sumOf(list *mcp.List) []byte {
	return list.Render("sum", func(list *mcp.List) []byte {
		var h maphash.Hash
		h.SetSeed(listSeed)
		for _, item := range list.Items {
			h.Write(item.Raw)
			h.WriteByte(0) // which no item has
		}
		return binary.NativeEndian.AppendUint64(nil, h.Sum64())
	})
}

// noteList remembers the first page of a list that a client has been answered with, as long
// as nobody listens on its behalf.
func (l *live) noteList(c *mcp.Call, reply *mcp.Reply) {
	if reply == nil || reply.List == nil || changesOf(c.Method) == "" {
		return
	}
	if _, later := c.Params.Member("cursor"); later {
		return
	}
	sum := sumOf(reply.List)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard != nil {
		return
	}
	if l.listed == nil {
		l.listed = make(map[string][]byte)
	}
	l.listed[c.Method] = sum
}

// tellChangedLists tells which of the lists that the client has are others now. The call is that
// which listens, from now on.
func (l *live) tellChangedLists(ctx context.Context, listens *mcp.Call) {
	l.mu.Lock()
	listed := l.listed
	l.listed = nil
	l.mu.Unlock()
	for method, sum := range listed {
		c := listens.Clone()
		c.Method, c.Params, c.Notify = method, nil, func(mcp.Event) {}
		reply, err := l.f.handler.Handle(ctx, c)
		if err == nil && reply != nil && reply.List != nil && bytes.Equal(sumOf(reply.List), sum) {
			continue
		}
		l.event(mcp.Event{Method: changesOf(method), Params: mcp.Raw("{}")})
	}
}

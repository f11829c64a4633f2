package front

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A session is listened for from its first stream on: what changes before would cost a
// listener for each session, and many never open a stream. So it is remembered what lists
// the client has, and its first listener tells which of them are others by then.

// noteList remembers the first page of a list that a client has been answered with, as long
// as nobody listens on its behalf.
func (l *live) noteList(c *mcp.Call, reply *mcp.Reply) {
	if reply == nil || reply.List == nil || mcp.ListsRead(c.Method) == 0 {
		return
	}
	if _, later := c.Params.Member("cursor"); later {
		return
	}
	sum := mcp.ListSum(0).Add(reply.List)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard != nil {
		return
	}
	if l.listed == nil {
		l.listed = make(map[string]mcp.ListSum)
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
		if err == nil && reply != nil && reply.List != nil && mcp.ListSum(0).Add(reply.List) == sum {
			continue
		}
		for _, changed := range mcp.ListsRead(method).Events() {
			l.event(changed)
		}
	}
}

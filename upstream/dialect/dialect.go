// Package dialect is what the two dialects of MCP have in common on the side of servers:
// requests as they go out, what is declared of a client, what a server has, its lists, its
// questions and its errors in the words of the inner language.
//
// It leaves to its callers what is sent and when, and how messages are written to mcp/wire.
// It starts no goroutine.
package dialect

import (
	"fmt"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// MaxHello bounds, in bytes, what a server says of itself, which is kept.
const MaxHello = 1 << 20

// Discovered makes the reply to server/discover, the same for both dialects.
func Discovered(rev *wire.Revision, result, info mcp.Raw) (*mcp.Reply, error) {
	if len(result) > MaxHello {
		return nil, fmt.Errorf("%w: server/discover", transport.ErrTooLarge)
	}
	caps, _ := result.Member("capabilities")
	caps = ValidTasks(rev, caps)
	if !caps.IsObject() {
		return nil, fmt.Errorf("%w: no capabilities", transport.ErrGarbage)
	}
	out := mcp.Object("capabilities", caps)
	if instructions, ok := result.Member("instructions"); ok && instructions.Text() != "" {
		out = out.With("instructions", instructions)
	}
	if info.IsObject() {
		out = out.With("serverInfo", info)
	}
	return &mcp.Reply{Result: out}, nil
}

// HasToken reports whether progress is that of a request.
func HasToken(m wire.Message, id int64) bool {
	token, _ := m.Params.Member(wire.MetaProgressToken)
	return transport.IsID(token, id)
}

// ReadList takes the page of a list apart. Errors: transport.ErrGarbage.
func ReadList(method string, result mcp.Raw) (*mcp.List, error) {
	items, ok := result.Member(mcp.ListMember(method))
	if !ok || !items.IsArray() {
		return nil, fmt.Errorf("%w: a list without %s", transport.ErrGarbage, mcp.ListMember(method))
	}
	list := &mcp.List{}
	key := mcp.ItemKey(method)
	items.Elements(func(item mcp.Raw) bool {
		name, _ := item.Member(key)
		list.Items = append(list.Items, mcp.Item{Name: name.Text(), Raw: item})
		return true
	})
	if next, ok := result.Member("nextCursor"); ok && !next.IsNull() {
		cursor := next.Text()
		list.Next = &cursor
	}
	if ttl, ok := result.Member("ttlMs"); ok {
		if ms, ok := Milliseconds(ttl); ok {
			list.Expires = time.Now().Add(ms)
		}
	}
	scope, _ := result.Member("cacheScope")
	list.Private = scope.Text() == "private"
	return list, nil
}

// Milliseconds reads a duration, at most a day.
func Milliseconds(raw mcp.Raw) (time.Duration, bool) {
	const day = 24 * time.Hour
	n := int64(0)
	if len(raw) == 0 || len(raw) > 15 {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return min(time.Duration(min(n, day.Milliseconds()))*time.Millisecond, day), true
}

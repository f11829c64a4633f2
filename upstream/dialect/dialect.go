// Package dialect holds what the gateway's two dialects for servers share. These are outgoing
// requests, the capabilities declared for a client, the capabilities of a server, and the server's
// lists, questions and errors in the inner language.
//
// It leaves what is sent and when to its callers, and the encoding of messages to
// internal/mcp/wire. It starts no goroutine.
package dialect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// MaxHello bounds, in bytes, what a server says about itself, because it is stored.
	MaxHello = 1 << 20
	// Goodbye bounds the time for messages at the end: cancellations, the end of a session.
	Goodbye = 5 * time.Second
)

// Discovered makes the reply to server/discover, the same for both dialects.
func Discovered(rev *wire.Revision, result, info mcp.Raw) (*mcp.Reply, error) {
	if len(result) > MaxHello {
		return nil, fmt.Errorf("%w: server/discover", transport.ErrTooLarge)
	}
	caps := result.At("capabilities")
	if caps.IsNull() {
		caps = mcp.Raw(`{}`) // it declares none
	}
	if caps = ValidTasks(rev, caps); !caps.IsObject() {
		return nil, fmt.Errorf("%w: %w", transport.ErrGarbage, errors.New("its capabilities are no object"))
	}
	out := mcp.Object("capabilities", caps)
	if instructions := result.At("instructions"); instructions.Text() != "" {
		out = out.With("instructions", instructions)
	}
	if info.IsObject() {
		out = out.With("serverInfo", info)
	}
	return &mcp.Reply{Result: out}, nil
}

// HasToken reports whether a progress message belongs to a request.
func HasToken(m wire.Message, id int64) bool {
	return transport.IsID(m.Params.At(wire.MetaProgressToken), id)
}

// ReadList makes the reply with a page of a list. Errors: transport.ErrGarbage.
func ReadList(method string, result mcp.Raw) (*mcp.Reply, error) {
	items := result.At(mcp.ListMember(method))
	if !items.IsArray() {
		return nil, transport.Garbage("a list without %s", mcp.ListMember(method))
	}
	list := &mcp.List{}
	key := mcp.ItemKey(method)
	items.Elements(func(item mcp.Raw) bool {
		list.Items = append(list.Items, mcp.Item{Name: item.At(key).Text(), Raw: item})
		return true
	})
	if next := result.At("nextCursor"); !next.IsNull() {
		cursor := next.Text()
		list.Next = &cursor
	}
	if ttl, ok := Milliseconds(result.At("ttlMs")); ok {
		list.Expires = time.Now().Add(ttl)
	}
	list.Private = result.At("cacheScope").Text() == "private"
	return &mcp.Reply{List: list}, nil
}

// Milliseconds reads a duration, at most a day.
func Milliseconds(raw mcp.Raw) (time.Duration, bool) {
	const day = 24 * time.Hour
	n, err := strconv.ParseUint(string(raw), 10, 50)
	return time.Duration(min(n, uint64(day.Milliseconds()))) * time.Millisecond, err == nil
}

// Answers reports whether m is the response to the request. On the request's own stream,
// that includes an error without an id, from a server that could not read the request.
func Answers(m wire.Message, id int64) bool {
	return m.Kind == wire.Response && (transport.IsID(m.ID, id) || m.Error != nil && m.ID.IsNull())
}

// Ask makes a request of the gateway's own and returns its response. header is nil for that of
// the connection; others takes the messages before the response.
func (e *Env) Ask(ctx context.Context, conn transport.Conn, header http.Header, method string, params mcp.Raw,
	others func(wire.Message)) (wire.Message, error) {
	id := e.NextID()
	m, _, err := Exchange(conn, &transport.Request{
		ID: id, Method: method, Header: header, Life: transport.NewLife(ctx, e.Timeout.Call, e.Timeout.Total),
		Body: wire.AppendRequest(nil, mcp.Int(id), method, params),
	}, others)
	return m, err
}

// Exchange makes a request and returns its response. others takes the messages before that.
// The returned stream is already closed, but still has the result's Outline and Release.
func Exchange(conn transport.Conn, req *transport.Request, others func(wire.Message)) (wire.Message,
	transport.Stream, error) {
	stream, err := conn.Start(req)
	if err != nil {
		SawRefusal(req.Trail, err)
		return wire.Message{}, nil, req.Life.Why(err)
	}
	defer stream.Close()
	for {
		m, err := stream.Next()
		if err != nil {
			return wire.Message{}, nil, req.Life.Why(err)
		}
		Saw(req.Trail, m)
		if Answers(m, req.ID) {
			return m, stream, nil
		}
		others(m)
	}
}

// Saw notes a message of the server on the trail of its call.
func Saw(on *trail.Trail, m wire.Message) {
	if on.Messages() {
		on.FromServer(m.Parts()...)
	}
}

// SawRefusal notes the message with which a server refused a request, if the error has one.
func SawRefusal(on *trail.Trail, err error) {
	if status, ok := errors.AsType[*transport.StatusError](err); ok && status.HasError() {
		Saw(on, status.Message)
	}
}

// Wait waits, or returns the context's cause.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Clip shortens what a server says about itself to 200 bytes.
func Clip(s string) string { return s[:min(len(s), 200)] }

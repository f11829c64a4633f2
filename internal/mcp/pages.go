package mcp

import (
	"context"
	"errors"
	"iter"
)

var errNoList = errors.New("the answer to a list method is no list")

// Pages calls a list method, and again for each further page, at most `most` times. It ends
// with the first error.
func Pages(ctx context.Context, h Handler, c *Call, most int) iter.Seq2[*List, error] {
	return func(yield func(*List, error) bool) {
		for range most {
			reply, err := h.Handle(ctx, c)
			if err == nil && (reply == nil || reply.List == nil) {
				err = errNoList
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(reply.List, nil) || reply.List.Next == nil {
				return
			}
			c = c.Clone()
			c.Params = Object("cursor", String(*reply.List.Next))
		}
	}
}

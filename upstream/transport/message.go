package transport

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Scan appends what a server sent, one message or an array of them, to messages. Only
// 2025-03-26 has arrays; they are understood from every server. Errors: ErrGarbage.
func Scan(messages []wire.Message, data []byte) ([]wire.Message, error) {
	if !wire.IsBatch(data) {
		m, err := wire.ScanUpstream(data)
		if err != nil {
			return nil, fmt.Errorf("%w: %v", ErrGarbage, err) // an error of ours, not one to show
		}
		return append(messages, m), nil
	}
	batch, errs, err := wire.ScanBatch(data)
	if err = cmp.Or(err, errors.Join(errs...)); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrGarbage, err)
	}
	return append(messages, batch...), nil
}

// Owned returns the message with memory of its own.
func Owned(m wire.Message) wire.Message {
	m.ID, m.Params = bytes.Clone(m.ID), bytes.Clone(m.Params)
	m.Result, m.Error = bytes.Clone(m.Result), bytes.Clone(m.Error)
	return m
}

// Weight returns how many bytes a message holds.
func Weight(m wire.Message) int64 {
	return int64(len(m.ID) + len(m.Params) + len(m.Result) + len(m.Error))
}

// Cancelled writes the notification that nobody waits for the answer to a request. The reason is
// that of the client, if cause has one.
func Cancelled(id int64, cause error, reason string) []byte {
	if said, ok := errors.AsType[mcp.CancelReason](cause); ok {
		reason = string(said)
	}
	params := mcp.Object("requestId", mcp.Int(id), "reason", mcp.String(reason))
	return wire.AppendNotification(nil, mcp.NoteCancelled, params)
}

// IsID reports whether a response's or token's text is this id.
func IsID(raw mcp.Raw, id int64) bool {
	var buf [20]byte
	return string(raw) == string(strconv.AppendInt(buf[:0], id, 10))
}

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// Scan appends what a server sent, one message or an array of them, to messages. Only
// 2025-03-26 has arrays; they are understood from every server. With an error, which is
// ErrGarbage, it appends those messages of an array that can be read.
func Scan(messages []wire.Message, data []byte) ([]wire.Message, error) {
	if !wire.IsBatch(data) {
		m, err := wire.ScanUpstream(data)
		if err != nil {
			return messages, Garbage("%v", err)
		}
		return append(messages, m), nil
	}
	batch, errs, err := wire.ScanBatch(data)
	if err != nil {
		return messages, Garbage("%v", err)
	}
	for i, m := range batch {
		if errs[i] == nil {
			messages = append(messages, m)
		} else {
			err = Garbage("%v", errs[i])
		}
	}
	return messages, err
}

// Garbage returns an ErrGarbage that says what is wrong. It hides the errors among the arguments,
// which are not for clients.
func Garbage(format string, args ...any) error {
	return &garbage{fmt.Sprintf(format, args...)}
}

type garbage struct{ text string }

func (e *garbage) Error() string        { return e.text }
func (e *garbage) Is(target error) bool { return target == ErrGarbage }

// lastID is an id that stands last in a message.
var lastID = regexp.MustCompile(`"id"\s*:\s*("?\d+"?)\s*\}\s*$`)

// AnswerTo returns the id in a broken message that seems to be an answer to us, or 0.
func AnswerTo(text []byte) int64 {
	raw := wire.PeekID(text)
	if found := lastID.FindSubmatch(text[max(0, len(text)-100):]); raw == nil && found != nil {
		raw = found[1]
	}
	id, _ := ReadID(raw)
	return id
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

// Cancelled writes the notification that the answer to a request is no longer awaited. The reason
// is that of the client, if cause has one.
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
	if string(raw) == string(strconv.AppendInt(buf[:0], id, 10)) {
		return true
	}
	got, ok := ReadID(raw)
	return ok && got == id
}

// ReadID reads one of our ids by its value: some servers send it back as a string or as 5.0.
func ReadID(raw mcp.Raw) (id int64, ok bool) {
	if len(raw) > 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	if id, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return id, true
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	return int64(number), err == nil && number == float64(int64(number))
}

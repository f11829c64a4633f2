package wire

import (
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// IsBatch reports whether the text is an array: a batch of messages, which only clients of
// revisions with Revision.Batches may send.
func IsBatch(data []byte) bool {
	s := scanner{b: data}
	i := s.space(0)
	return i < len(data) && data[i] == '['
}

// ScanBatch splits a batch into messages (2025-03-26 basic/index#batching). For each member
// it returns a message and an error as Scan does. The last error is about the array itself:
// it is not JSON, empty, or longer than MaxBatch.
func ScanBatch(data []byte) ([]Message, []error, error) {
	s := scanner{b: data}
	i := s.space(0)
	if i >= len(data) || data[i] != '[' {
		return nil, nil, invalid("a batch is an array")
	}
	if i = s.space(i + 1); i < len(data) && data[i] == ']' {
		return nil, nil, invalid("the batch is empty")
	}
	var messages []Message
	var errs []error
	for {
		start := s.space(i)
		if i = s.value(start, 1); i < 0 {
			return nil, nil, s.parseError()
		}
		if len(messages) == MaxBatch {
			return nil, nil, mcp.Errorf(failure.InvalidRequest, "Invalid request: a batch has more than %d messages", MaxBatch)
		}
		m, err := Scan(data[start:i:i])
		messages, errs = append(messages, m), append(errs, err)
		if i = s.space(i); i >= len(data) || data[i] != ',' && data[i] != ']' {
			s.fail(i, "a comma or an end is missing")
			return nil, nil, s.parseError()
		}
		i++
		if data[i-1] == ']' {
			break
		}
	}
	if i = s.space(i); i < len(data) {
		s.fail(i, "something follows its end")
		return nil, nil, s.parseError()
	}
	return messages, errs, nil
}

// PeekID returns the id of a message from its first bytes, or nil if the whole id is not
// among them. It is for answers about a message that could not be read to its end.
func PeekID(prefix []byte) mcp.Raw {
	s := scanner{b: prefix}
	i := s.space(0)
	if i >= len(prefix) || prefix[i] != '{' {
		return nil
	}
	for {
		name := s.space(i + 1)
		nameEnd, start := s.name(name)
		if nameEnd < 0 {
			return nil
		}
		start = s.space(start)
		if i = s.value(start, 1); i < 0 || i == len(prefix) { // a number may continue
			return nil
		}
		if string(prefix[name+1:nameEnd-1]) == "id" {
			id := mcp.Raw(prefix[start:i:i])
			if badID(id) != "" {
				return nil
			}
			return id
		}
		if i = s.space(i); i >= len(prefix) || prefix[i] != ',' {
			return nil
		}
	}
}

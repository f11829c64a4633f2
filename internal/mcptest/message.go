package mcptest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Message is one JSON-RPC message as it was on the wire.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`

	// Text is the text of the message.
	Text string `json:"-"`
	// EventID is the id of its event, "" without one.
	EventID string `json:"-"`
	// EventName is the name of its event, "" without one.
	EventName string `json:"-"`
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d) %s", e.Message, e.Code, e.Data) }

// IsResponse reports whether the message answers a request.
func (m Message) IsResponse() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Param decodes the value at a path of members of params into v and reports whether it
// exists. The path is separated by "|", because keys contain dots and slashes.
func (m Message) Param(path string, v any) bool { return dig(m.Params, path, v) }

// Value is Param for the result.
func (m Message) Value(path string, v any) bool { return dig(m.Result, path, v) }

func dig(raw json.RawMessage, path string, v any) bool {
	for name := range strings.SplitSeq(path, "|") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return false
		}
		var ok bool
		if raw, ok = object[name]; !ok {
			return false
		}
	}
	return json.Unmarshal(raw, v) == nil
}

func parse(text []byte) (Message, error) {
	var m Message
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading %.200q: %w", text, err)
	}
	m.Text = string(text)
	return m, nil
}

// event is one event of an event stream.
type event struct{ id, name, data string }

// readEvent reads the next event and skips comments. It understands only what servers
// write: LF or CRLF, and the fields id, event, data and retry.
func readEvent(r *bufio.Reader) (event, error) {
	var e event
	var seen bool
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return event{}, err // an incomplete event does not count
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if seen {
				return e, nil
			}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.id, seen = value, true
		case "event":
			e.name, seen = value, true
		case "data":
			if e.data != "" {
				e.data += "\n"
			}
			e.data, seen = e.data+value, true
		}
	}
}

// compact removes line breaks, so that JSON on several lines of a test fits into an event. Invalid
// JSON is a mistake of the test.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		panic(fmt.Sprintf("the test's own JSON %.200q: %v", text, err))
	}
	return b.String()
}

// merge adds members to an object; existing members win.
func merge(text string, more map[string]string) (string, error) {
	object := map[string]json.RawMessage{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			return "", fmt.Errorf("the test's own JSON %.200q: %w", text, err)
		}
	}
	for name, value := range more {
		if _, ok := object[name]; !ok {
			object[name] = json.RawMessage(value)
		}
	}
	merged, err := json.Marshal(object)
	return string(merged), err
}

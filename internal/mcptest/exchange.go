package mcptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
)

// Exchange is the answer to one HTTP request, read as it arrives. It is for one goroutine,
// but any goroutine may call Close.
type Exchange struct {
	Status int
	Header http.Header
	// Stream reports that the answer is an event stream.
	Stream bool
	// Before holds the messages that Response and Until skipped.
	Before []Message

	body   io.ReadCloser
	reader *bufio.Reader
	read   bool // the one JSON message was read
	events []string
}

func newExchange(resp *http.Response) *Exchange {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &Exchange{
		Status: resp.StatusCode,
		Header: resp.Header,
		Stream: kind == "text/event-stream",
		body:   resp.Body,
		reader: bufio.NewReader(resp.Body),
	}
}

// Next returns the next message, and io.EOF after the last one. For an answer without a
// body it returns an error with the status.
func (x *Exchange) Next() (Message, error) {
	if !x.Stream {
		if x.read {
			return Message{}, io.EOF
		}
		x.read = true
		text := x.Text()
		if text == "" {
			return Message{}, fmt.Errorf("status %d without a body", x.Status)
		}
		return parse([]byte(text))
	}
	for {
		e, err := readEvent(x.reader)
		if err != nil {
			return Message{}, err
		}
		x.events = append(x.events, e.id)
		if e.data == "" {
			continue // a priming event
		}
		m, err := parse([]byte(e.data))
		m.EventID, m.EventName = e.id, e.name
		return m, err
	}
}

// Until returns the next message of a method. The messages before it are in Before.
func (x *Exchange) Until(method string) (Message, error) {
	return x.find("a message "+method, func(m Message) bool { return m.Method == method })
}

// Response returns the response. The messages before it are in Before.
func (x *Exchange) Response() (Message, error) {
	return x.find("a response", Message.IsResponse)
}

func (x *Exchange) find(what string, is func(Message) bool) (Message, error) {
	for {
		m, err := x.Next()
		if errors.Is(err, io.EOF) {
			return m, fmt.Errorf("status %d: the answer ended without %s: %w", x.Status, what, err)
		}
		if err != nil {
			return m, err
		}
		if is(m) {
			return m, nil
		}
		x.Before = append(x.Before, m)
	}
}

// EventIDs returns the ids of all events so far, "" for an event without one.
func (x *Exchange) EventIDs() []string { return x.events }

// LastEventID returns the id of the last event that had one, or "".
func (x *Exchange) LastEventID() string {
	for _, id := range slices.Backward(x.events) {
		if id != "" {
			return id
		}
	}
	return ""
}

// Text returns the rest of the body.
func (x *Exchange) Text() string {
	text, _ := io.ReadAll(io.LimitReader(x.reader, 32<<20)) // show whatever could be read
	return string(text)
}

// Close ends the exchange. If it was not complete, the server sees that the client is gone.
func (x *Exchange) Close() { x.body.Close() }

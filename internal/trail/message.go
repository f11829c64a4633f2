package trail

import (
	"strings"
	"time"
)

const (
	// mostMessages and MessageBytes bound what is kept of a call: its first messages, and the
	// beginning of each.
	mostMessages = 24
	MessageBytes = 8 << 10
	// messageSize is about what a message takes in addition to its text.
	messageSize = 256
)

// Message is a message of a call, as it was on the wire.
type Message struct {
	// Edge is where it was seen: client or server.
	Edge string
	// In says that the gateway received it.
	In    bool
	Round int
	// At is the time since the request arrived.
	At time.Duration
	// Status is the HTTP status of an answer to the client, 0 for none.
	Status int
	// Headers are those of the protocol that say what the message is, by their names; those of
	// credentials and sessions are never among them.
	Headers [][2]string
	// Text is its beginning, and Bytes the size of all of it.
	Text  []byte
	Bytes int
}

// Edges.
const (
	Client = "client"
	Server = "server"
)

// keptHeaders are the headers that say what a message is.
var keptHeaders = [...]string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"}

const paramHeaders = "Mcp-Param-"

// Messages reports whether messages are kept.
func (t *Trail) Messages() bool { return t != nil && t.mode != ModeOff }

// FromClient notes a message of the client; parts are its text.
func (t *Trail) FromClient(headers map[string][]string, parts ...[]byte) {
	t.note(Message{Edge: Client, In: true}, headers, parts)
}

// ToClient notes a message to the client, with its HTTP status, 0 for an event of a stream.
func (t *Trail) ToClient(status int, parts ...[]byte) {
	t.note(Message{Edge: Client, Status: status}, nil, parts)
}

// FromServer notes a message of the server.
func (t *Trail) FromServer(parts ...[]byte) { t.note(Message{Edge: Server, In: true}, nil, parts) }

// ToServer notes a message to the server.
func (t *Trail) ToServer(headers map[string][]string, parts ...[]byte) {
	t.note(Message{Edge: Server}, headers, parts)
}

// note copies what is kept of a message: its text may be part of something large, and the memory of
// that may be used again.
func (t *Trail) note(m Message, headers map[string][]string, parts [][]byte) {
	if !t.Messages() {
		return
	}
	for _, part := range parts {
		m.Bytes += len(part)
	}
	if m.Bytes == 0 {
		return
	}
	size := int64(min(m.Bytes, MessageBytes) + messageSize)
	m.At = time.Since(t.began)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone || len(t.messages) >= mostMessages || !t.of.take(size) {
		t.missed++
		return
	}
	t.bytes += size
	m.Round = t.round
	m.Text = make([]byte, 0, min(m.Bytes, MessageBytes))
	for _, part := range parts {
		m.Text = append(m.Text, part[:min(len(part), MessageBytes-len(m.Text))]...)
	}
	m.Headers = kept(headers)
	t.messages = append(t.messages, m)
}

// kept are the headers that are kept, at most a few and each cut.
func kept(headers map[string][]string) (all [][2]string) {
	add := func(name string, values []string) {
		const most, longest = 8, 256
		if len(values) > 0 && len(all) < most {
			all = append(all, [2]string{strings.Clone(name[:min(len(name), longest)]),
				strings.Clone(values[0][:min(len(values[0]), longest)])})
		}
	}
	for _, name := range keptHeaders {
		add(name, headers[name])
	}
	for name, values := range headers {
		if strings.HasPrefix(name, paramHeaders) {
			add(name, values)
		}
	}
	return all
}

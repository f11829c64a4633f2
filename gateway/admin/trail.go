package admin

import (
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/shape"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// forgotten is the reason why a call has neither steps nor messages.
const forgotten = "other calls have taken the room of its steps and messages; " +
	"those of failed and slow calls stay longest"

// Step is the work of one part of the gateway for a call.
type Step struct {
	// Step is the part, Of the hook or server.
	Step string `json:"step"`
	Of   string `json:"of,omitempty"`
	// Round is that of its questions, counted from 1.
	Round int `json:"round"`
	// Start is its begin after the arrival of the request, in milliseconds, as is Duration.
	Start    float64 `json:"start_ms"`
	Duration float64 `json:"duration_ms"`
	// Result is its outcome, "" if the call just went on. Open says that it has not ended.
	Result string `json:"result,omitempty"`
	Open   bool   `json:"open,omitempty"`
}

// Message is a message of a call, as it was on the wire.
type Message struct {
	// Edge is client or server; Received says that the gateway received the message there.
	Edge     string  `json:"edge"`
	Received bool    `json:"received"`
	Round    int     `json:"round"`
	At       float64 `json:"at_ms"`
	// Status is that of HTTP, for the answer to the client if it was no stream.
	Status  int      `json:"status,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	// Text is the message with a line for each member; Bytes is its size on the wire. Cut says that
	// only its beginning is there.
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	Cut   bool   `json:"cut,omitempty"`
}

// Header is a header of the protocol.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// tell adds a trail to the answer about its call.
func (c *Call) tell(v trail.View, d *Decision, full bool) {
	for _, s := range v.Steps {
		if s.Name == "policy" && s.Result == "" {
			s.Result = d.Decision
		}
		c.Steps = append(c.Steps, Step{s.Name, s.Of, s.Round, millis(s.Start), millis(s.Took), s.Result, s.Open})
	}
	known := []string{d.Name, d.Original} // viewers see these anyway
	c.Values = full && v.Mode == trail.ModeFull
	for _, m := range v.Messages {
		said := Message{
			Edge: m.Edge, Received: m.In, Round: m.Round, At: millis(m.At), Status: m.Status,
			Text: shape.Text(m.Text, known, c.Values), Bytes: m.Bytes, Cut: m.Bytes > len(m.Text),
		}
		for _, h := range m.Headers {
			said.Headers = append(said.Headers, Header{h[0], shape.Header(h[0], h[1], known, c.Values)})
		}
		c.Messages = append(c.Messages, said)
	}
	c.Missed = v.Missed
}

// millis returns a time in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

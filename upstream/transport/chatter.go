package transport

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// ChatterLine is how many bytes of a line are logged.
	ChatterLine = 1000
	chatterMost = 20 // lines that are logged in each chatterTick
	chatterTick = time.Second
)

// Chatter logs what a server says to its operator, up to a rate. It only counts the rest.
type Chatter struct {
	log *slog.Logger

	mu    sync.Mutex // guards the fields below
	said  int        // in the present tick
	since time.Time  // when the tick began
}

// NewChatter makes a Chatter that writes to a log.
func NewChatter(log *slog.Logger) *Chatter { return &Chatter{log: log} }

// Say logs one line under a constant message.
func (c *Chatter) Say(message string, attrs ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) >= chatterTick {
		if silent := c.said - chatterMost; silent > 0 {
			c.log.Info("more of what the server says was not logged", "lines", silent)
		}
		c.said, c.since = 0, now
	}
	if c.said++; c.said <= chatterMost {
		c.log.Info(message, attrs...)
	}
}

// ClipLine bounds a line of a server for the log.
func ClipLine(line []byte) string { return string(line[:min(len(line), ChatterLine)]) }

// Program keeps what the process of a server has said on stderr, and how it ended. It may be used
// concurrently.
type Program struct {
	mu    sync.Mutex // guards the fields below
	said  []byte     // the end of it
	ended string
}

// Write takes what the process writes to stderr.
func (p *Program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, b...)
	p.said = slices.Delete(p.said, 0, max(0, len(p.said)-ChatterLine))
	return len(b), nil
}

// End takes how the process ended.
func (p *Program) End(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = state
}

// Last returns the end of what the process has said, and how it ended, "" while it runs. A nil
// Program has said nothing.
func (p *Program) Last() (said, ended string) {
	if p == nil {
		return "", ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said), p.ended
}

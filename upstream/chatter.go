package upstream

import (
	"log/slog"
	"sync"
	"time"
)

const (
	chatterLine = 1000 // bytes of a line that are logged
	chatterMost = 20   // lines that are logged in each chatterTick
	chatterTick = time.Second
)

// chatter logs what a server says for its operator, as far as it says little. What is
// more is only counted.
type chatter struct {
	log *slog.Logger

	mu     sync.Mutex // guards the fields below
	said   int        // in the present tick
	silent int        // of those, what was not logged
	since  time.Time  // when the tick began
}

// say logs one line under a message, which is constant.
func (c *chatter) say(message string, attrs ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.since) >= chatterTick {
		if c.silent > 0 {
			c.log.Info("more of what the server says was not logged", "lines", c.silent)
		}
		c.said, c.silent, c.since = 0, 0, now
	}
	if c.said++; c.said > chatterMost {
		c.silent++
		return
	}
	c.log.Info(message, attrs...)
}

// clipLine bounds a line of a server for the log.
func clipLine(line []byte) string { return string(line[:min(len(line), chatterLine)]) }

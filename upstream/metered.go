package upstream

import (
	"io"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// metered takes room for the messages that are read from a pipe, one after the other.
// Answers to calls are taken from the calls' own rooms, too (mux.route).
type metered struct {
	io.Reader
	room  *mcp.Room
	meter mcp.Meter
}

// Read reads on; errNoRoom where there is no room for more of a message.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if !m.meter.Read(m.room, n) {
		return 0, errNoRoom
	}
	return n, err
}

// next ends a message; so many bytes of the next one were read.
func (m *metered) next(read int) { m.meter.Next(m.room, read, false) }

// weight is how many bytes a message holds.
func weight(m wire.Message) int64 {
	return int64(len(m.ID) + len(m.Params) + len(m.Result) + len(m.Error))
}

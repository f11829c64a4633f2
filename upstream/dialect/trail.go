package dialect

import (
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

// Saw notes a message of the server on the trail of its call.
func Saw(on *trail.Trail, m wire.Message) {
	if on.Messages() {
		on.FromServer(m.Parts()...)
	}
}

// SawRefusal notes the message with which a server refused a request, if the error has one.
func SawRefusal(on *trail.Trail, err error) {
	if err == nil || !on.Messages() {
		return
	}
	if status, ok := errors.AsType[*transport.StatusError](err); ok && status.HasError() {
		Saw(on, status.Message)
	}
}

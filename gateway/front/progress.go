package front

import (
	"bytes"
	"strconv"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// notify is mcp.Call.Notify: it sends what belongs to this request, as long as it
// is not answered. What a client that reads slowly has no room for is lost.
func (x *exchange) notify(e mcp.Event) {
	if e.Method == mcp.NoteCancelled { // a question, by its server
		key, _ := e.Params.Member("key")
		x.retract(key.Text())
		return
	}
	if !x.accept.stream {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	params := e.Params
	switch e.Method {
	case mcp.NoteProgress:
		value, _ := params.Member("progress")
		if x.token == nil || !isNumber(value) || x.progress != nil && !less(x.progress, value) {
			return
		}
		x.progress = append(x.progress[:0], value...)
		x.params = params.AppendEdited(x.params[:0], mcp.Edit{Name: "progressToken", Value: x.token})
		params = x.params
	case mcp.NoteMessage:
		if !x.wants(params) {
			return
		}
	case mcp.NoteElicitationComplete:
		if !x.rev.ElicitationIDs {
			return
		}
	default:
		return // a stream carries what belongs to its request, nothing else
	}
	params = x.rev.Event(e.Method, params)
	if x.needStream() == nil {
		return
	}
	x.event = wire.AppendNotification(x.event[:0], e.Method, params)
	x.send(x.event)
}

// wants reports whether a log message is severe enough. A stateful client that
// never set a level gets all; a stateless one that set none gets none.
func (x *exchange) wants(params mcp.Raw) bool {
	level, _ := params.Member("level")
	if x.call.LogLevel == "" {
		return x.rev.Stateful && wire.ValidLogLevel(level.Text())
	}
	return wire.LogLevelAtLeast(level.Text(), x.call.LogLevel)
}

// isProgressToken reports whether a value may be a progress token: a string or a number.
func isProgressToken(value mcp.Raw) bool {
	return len(value) > 0 && (value[0] == '"' || isNumber(value))
}

func isNumber(value mcp.Raw) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// less compares two JSON numbers. Integers are compared by their digits: there are
// some that no float tells apart.
func less(a, b mcp.Raw) bool {
	if isDuration(a) && isDuration(b) {
		if len(a) != len(b) {
			return len(a) < len(b)
		}
		return bytes.Compare(a, b) < 0
	}
	x, _ := strconv.ParseFloat(string(a), 64) // out of range is an infinity
	y, _ := strconv.ParseFloat(string(b), 64)
	return x < y
}

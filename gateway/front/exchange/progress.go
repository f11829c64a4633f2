package exchange

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// progressRate bounds the progress events a second for one call, progressBurst those at once. Of
// events that come faster, the latest is sent.
const progressRate, progressBurst = 50, 50

// notify is mcp.Call.Notify: it sends the events of this request until the request is answered. An
// event without room, because the client reads slowly, is lost.
func (x *Exchange) notify(e mcp.Event) {
	if e.Method == mcp.NoteCancelled { // the server withdraws a question
		if key, _ := e.Params.Member("key"); x.Live != nil {
			x.Running.Retract(key.Text())
		}
		return
	}
	if !x.accept.Stream {
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
		x.held = true
		x.tellProgress()
	case mcp.NoteMessage:
		if x.wants(params) {
			x.tell(e.Method, params)
		}
	case mcp.NoteElicitationComplete:
		if x.rev.ElicitationIDs {
			x.tell(e.Method, params)
		}
	} // a stream carries only what belongs to its request
}

// tell sends a notification. The caller holds mu.
func (x *Exchange) tell(method string, params mcp.Raw) {
	params = x.rev.Event(method, params)
	if x.needStream() == nil {
		return
	}
	x.event = wire.AppendNotification(x.event[:0], method, params)
	x.send(x.event)
}

// tellProgress sends the progress in x.params. Progress that comes too fast waits, and the
// next one replaces it. The caller holds mu.
func (x *Exchange) tellProgress() {
	if x.pace == nil {
		x.pace = rate.NewLimiter(progressRate, progressBurst)
	}
	now := time.Now()
	if x.pace.AllowN(now, 1) {
		x.held = false
		x.tell(mcp.NoteProgress, x.params)
		return
	}
	wait := time.Duration((1 - x.pace.TokensAt(now)) / progressRate * float64(time.Second))
	if x.holding == nil {
		x.holding = time.AfterFunc(wait, x.tellHeld)
	} else {
		x.holding.Reset(wait)
	}
}

// tellHeld sends the waiting progress, if there is any.
func (x *Exchange) tellHeld() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held && !x.over {
		x.tellProgress()
	}
}

// wants reports whether a log message is severe enough. A stateful client that never set a
// level gets all messages; a stateless one that set none gets none.
func (x *Exchange) wants(params mcp.Raw) bool {
	level, _ := params.Member("level")
	if x.Call.LogLevel == "" {
		return x.rev.Stateful && wire.ValidLogLevel(level.Text())
	}
	return wire.LogLevelAtLeast(level.Text(), x.Call.LogLevel)
}

func isNumber(value mcp.Raw) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// less compares two JSON numbers, integers by their digits: floats cannot distinguish all.
func less(a, b mcp.Raw) bool {
	if IsDuration(a) && IsDuration(b) {
		if len(a) != len(b) {
			return len(a) < len(b)
		}
		return bytes.Compare(a, b) < 0
	}
	x, _ := strconv.ParseFloat(string(a), 64) // out of range is an infinity
	y, _ := strconv.ParseFloat(string(b), 64)
	return x < y
}

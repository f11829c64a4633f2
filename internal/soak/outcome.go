package main

import "time"

// Outcomes of calls that did not fail.
const (
	answered  = "answered"
	cancelled = "cancelled" // by its client, on purpose
	died      = "died"      // its server broke the connection, as the script wanted
)

// executedNo is the value of "executed" in an error that promises that the call did not
// run.
const executedNo = "no"

// outcome is how a call ended.
type outcome struct {
	kind     string    // answered, cancelled or died; for a failure its code, its HTTP status or a word
	session  time.Time // when the call's session began; zero without one
	server   string    // the server that was called, "" for none
	executed string    // "executed" of the error in this round: "no", "unknown" or nothing
	round    int       // the last round
	detail   string    // for the report
}

func (o outcome) failed() bool {
	return o.kind != answered && o.kind != cancelled && o.kind != died
}

// Failures that have no code.
const (
	// sessionLost: the gateway does not know the session of the call.
	sessionLost = "session lost"
	// streamLost: the gateway does not know the HTTP+SSE stream of the call. Its replica is
	// gone, or cannot be reached.
	streamLost = "stream lost"
	// notHeard: the stream of a subscription ended before an update came. The client
	// subscribes again and reads the resource.
	notHeard = "stream ended"
	// endUnknown: the end of a session was answered with 50303, because its owner was cut
	// off. The owner may or may not have ended it, so the client asks again.
	endUnknown = "end unknown"
	// toldAgain: an event arrived a second time on a resumed stream.
	toldAgain = "told again"
	// toldOfGap: events of a stream could not be kept, and were missing when it was resumed. The
	// client was told so.
	toldOfGap = "told of a gap"
)

// Failures that faults explain.
var (
	// cutOff explains failures of clients whose replica ends: broken connections, and
	// streams that nobody continues.
	cutOff = []string{"cut", "lost", streamLost, notHeard, endUnknown, "HTTP 502", "50205"}
	// unserved explains failures of calls to an upstream that fails.
	unserved = []string{"50201", "50202", "50204", "50205", "50401", notHeard}
	// storeless explains failures of requests that need the store.
	storeless = []string{"50303", endUnknown, "lost", streamLost, "50205", toldAgain, toldOfGap}
	// unlinked explains failures at a replica that cannot forward to the owner.
	unlinked = []string{"50303", endUnknown, "lost", "cut", streamLost, notHeard, "50205", toldAgain}
)

package main

import "time"

// Outcomes of calls that are no failures.
const (
	answered  = "answered"
	cancelled = "cancelled" // as its client wanted
	died      = "died"      // its server broke the connection, as it was told to
)

// executedNo is what an error says that promises that the call did not run.
const executedNo = "no"

// outcome is how a call ended.
type outcome struct {
	kind     string    // answered, cancelled or, of a failure, its code, its HTTP status or a word
	session  time.Time // since when there is the session that it was made in; zero without one
	server   string    // whose answer it is, "" for none
	executed string    // what the error says of this round: "no", "unknown" or nothing
	round    int       // in which it ended
	detail   string    // for people
}

func (o outcome) failed() bool {
	return o.kind != answered && o.kind != cancelled && o.kind != died
}

// Failures that have no code.
const (
	// sessionLost is how a call ends whose session the gateway does not know.
	sessionLost = "session lost"
	// streamLost is how a call ends whose stream of HTTP+SSE the gateway does not know: it
	// was at a replica that has gone, or nobody can ask for it.
	streamLost = "stream lost"
	// notHeard is how a subscription ends whose stream ended before an update came: its
	// client listens anew, and reads what it follows.
	notHeard = "stream ended"
	// endUnknown is how the end of a session is answered that the owner did, or did not, do
	// before it was cut off: its client comes again.
	endUnknown = "end unknown"
	// toldAgain is an event that comes again on a stream that is gone on with.
	toldAgain = "told again"
)

// Failures that faults explain.
var (
	// cutOff is what clients meet whose replica ends under them: broken connections and
	// streams that nobody goes on with.
	cutOff = []string{"cut", "lost", streamLost, notHeard, endUnknown, "HTTP 502", "50205"}
	// unserved is what an upstream that fails is answered with.
	unserved = []string{"50201", "50202", "50204", "50205", "50401", notHeard}
	// storeless is what needs the store and has to do without.
	storeless = []string{"50303", endUnknown, "lost", streamLost, "50205", toldAgain}
	// unlinked is what meets a replica that cannot forward to the owner.
	unlinked = []string{"50303", endUnknown, "lost", "cut", streamLost, notHeard, "50205", toldAgain}
)

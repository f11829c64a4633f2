package front

import (
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Event streams that last (GET, subscriptions/listen, HTTP+SSE) are counted by user, over
// all sessions and clients: each costs memory and a connection for as long as its client
// likes. Streams that answer a call end with it and are not counted. Without
// authentication there is one user, whom only the number of connections bounds.

// openStream counts a stream in; false when its user has as many as they may. givenUp says
// that another stream has just been ended to make room for it, which may still count.
func (f *Front) openStream(c mcp.Caller, givenUp bool) bool {
	if c.Issuer == "" {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	most := f.cfg.StreamsPerUser
	if givenUp {
		most *= 2 // all of them may be about to end, which takes a client that reads nothing a while
	}
	if f.open[c.User()] >= most {
		return false
	}
	f.open[c.User()]++
	return true
}

// closeStream counts a stream out.
func (f *Front) closeStream(c mcp.Caller) {
	if c.Issuer == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[c.User()]--; f.open[c.User()] == 0 {
		delete(f.open, c.User())
	}
}

// giveWay ends a stream of a session for a new one of its client: the one that the client
// has given up, else the oldest; false when it has none. Connections of clients that
// vanished count until they fail, and the clients come back before that.
func (l *live) giveWay(givenUp string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.streams) == 0 || l.streams[0].plain { // that one's end would be the session's
		return false
	}
	at := max(0, slices.IndexFunc(l.streams, func(st *standing) bool { return st.name == givenUp }))
	close(l.streams[at].done)
	l.streams = slices.Delete(l.streams, at, at+1)
	return true
}

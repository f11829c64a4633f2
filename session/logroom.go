package session

import (
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxLogBytes bounds all event logs of a store; those of one user may use half of it. An event
// without room is not kept, and a later reader learns of a gap.
const maxLogBytes = 256 << 20

// logRoom counts the bytes in the event logs of a store. With Redis, it counts those of the
// sessions that this replica holds.
type logRoom struct {
	mu    sync.Mutex // guards the fields below; no other lock is taken inside
	bytes int64
	users map[string]int64
}

// fits reports whether there is room for n more bytes.
func (r *logRoom) fits(user string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+int64(n) > maxLogBytes {
		return false
	}
	return r.users[user]+int64(n) <= maxLogBytes/2 || user == (mcp.Caller{}).User() // without authentication there is one user
}

// change adds n bytes to what a user's logs hold; n may be negative.
func (r *logRoom) change(user string, n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = make(map[string]int64)
	}
	r.bytes += int64(n)
	if r.users[user] += int64(n); r.users[user] == 0 {
		delete(r.users, user)
	}
}

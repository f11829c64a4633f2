package session

import (
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxLogBytes bounds all event logs of a store; those of one user have half of it. An
// event for which there is no room is not kept, and whoever reads it later learns of a
// gap.
const maxLogBytes = 256 << 20

// logRoom counts what the event logs of a store hold. Of Redis it counts the sessions that
// this replica holds.
type logRoom struct {
	mu    sync.Mutex // guards the fields below; nothing else is locked inside
	bytes int64
	users map[string]int64
}

// fits reports whether there is room for so many bytes more.
func (r *logRoom) fits(user string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes+int64(n) > maxLogBytes {
		return false
	}
	return r.users[user]+int64(n) <= maxLogBytes/2 || user == (mcp.Caller{}).User() // without authentication there is one user
}

// change counts bytes that a user's logs hold now, or, below zero, hold no more.
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

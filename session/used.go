package session

import (
	"math"
	"sync/atomic"
	"time"
)

// expired is the time of a lastUse that nothing gets away from.
const expired = math.MinInt64

// lastUse is when a session was last used, in nanoseconds by the clock of its store, or
// expired.
type lastUse struct{ atomic.Int64 }

// alive reports whether the session is not idle for too long.
func (u *lastUse) alive(now int64, idle time.Duration) bool {
	used := u.Load()
	return used != expired && now-used < int64(idle)
}

// touch restarts the idle time, unless it is over: once a caller has been told so,
// the session stays ended for all.
func (u *lastUse) touch(now int64, idle time.Duration) bool {
	for {
		used := u.Load()
		switch {
		case used == expired:
			return false
		case now-used >= int64(idle):
			if u.CompareAndSwap(used, expired) {
				return false
			}
		case now <= used || u.CompareAndSwap(used, now):
			return true
		}
	}
}

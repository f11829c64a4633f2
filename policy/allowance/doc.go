// Package allowance counts the calls that are left below each limit, in memory or in Redis.
//
// It knows nothing of limits and callers: a bucket has a key, an interval and a burst. It starts no
// goroutines.
package allowance

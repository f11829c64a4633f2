// Package retryafter reads how long a server wants to be left alone.
//
// It owns this rule. It starts no goroutines.
package retryafter

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Read returns what the header Retry-After asks for: seconds, or a date by the server's own clock
// (RFC 9110 §10.2.3). It returns at most the given time, and 0 for a date in the past and for
// anything else. now is the time where the server does not send its own.
func Read(h http.Header, now time.Time, most time.Duration) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64) // the largest number where it is out of range
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if theirs, err := http.ParseTime(h.Get("Date")); err == nil {
		now = theirs
	}
	return min(max(at.Sub(now), 0), most)
}

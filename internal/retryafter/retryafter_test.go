package retryafter

import (
	"net/http"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name, value, date string
		want              time.Duration
	}{
		{"nothing", "", "", 0},
		{"seconds", "7", "", 7 * time.Second},
		{"at once", "0", "", 0},
		{"too many", "900", "", time.Minute},
		{"more than a number can say", "100000000000000000000", "", time.Minute},
		{"a negative number", "-1", "", 0},
		{"a word", "soon", "", 0},
		{"a date", "Fri, 02 Jan 2026 03:04:15 GMT", "", 10 * time.Second},
		{"a date that is over", "Fri, 02 Jan 2026 03:04:00 GMT", "", 0},
		{"a date far off", "Fri, 01 Jan 2100 00:00:00 GMT", "", time.Minute},
		{"a date by a clock that is wrong", "Fri, 01 Jan 2100 00:00:07 GMT", "Fri, 01 Jan 2100 00:00:00 GMT",
			7 * time.Second},
		{"by a clock that says nothing", "Fri, 02 Jan 2026 03:04:15 GMT", "noon", 10 * time.Second},
	} {
		h := http.Header{"Retry-After": {tt.value}, "Date": {tt.date}}
		if got := Read(h, now, time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

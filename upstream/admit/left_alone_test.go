package admit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// by assigns a call to a user, in a session of that user.
func by(user string, c *mcp.Call) *mcp.Call {
	c.Caller = mcp.Caller{Issuer: "https://issuer", Subject: user}
	c.Session = user + ":" + c.Session
	return c
}

// TestRetryAfter: a server that says how long to wait is left alone for that time by
// the user to whom it said so, and by nobody else.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, header, date string
		want               time.Duration // 0 for no pause
	}{
		{"seconds", "7", "", 7 * time.Second},
		{"a date", "Sat, 01 Jan 2000 00:10:07 GMT", "Sat, 01 Jan 2000 00:10:00 GMT", 7 * time.Second},
		{"a date by a clock that is wrong", "Fri, 01 Jan 2100 00:00:07 GMT", "Fri, 01 Jan 2100 00:00:00 GMT",
			7 * time.Second},
		{"a date that is over", "Fri, 01 Jan 1999 00:00:00 GMT", "", 0},
		{"too long", "1000000000", "", 5 * time.Minute},
		{"longer than a number can say", "100000000000000000000", "", 5 * time.Minute},
		{"a date far off", "Fri, 01 Jan 2100 00:00:00 GMT", "", 5 * time.Minute},
		{"at once", "0", "", 0},
		{"a negative time", "-7", "", 0},
		{"garbage", "garbage", "", 0},
		{"nothing", "", "", 0},
	} {
		for _, stateful := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testRetryAfter(t, stateful, tt.header, tt.date, tt.want) })
			})
		}
	}
}

// testRetryAfter runs in a bubble of synctest.
func testRetryAfter(t *testing.T, stateful bool, header, date string, want time.Duration) {
	limited := true
	f := fake.NewBubble(t, stateful, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || !limited {
			return false
		}
		w.Header().Set("Retry-After", header)
		if date != "" {
			w.Header().Set("Date", date)
		}
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	u := f.Upstream(t, upstream.Config{})
	refused := func(c *mcp.Call, want time.Duration) {
		t.Helper()
		_, err := fake.Do(t, u, c)
		e := fake.WantError(t, err, mcp.CodeRateLimited, mcp.ExecutedNo)
		ms, told := e.Data.Member("retryAfterMs")
		seconds, _ := e.Data.Member("retry_after")
		if told != (want > 0) || told && (string(ms) != string(mcp.Int(want.Milliseconds())) ||
			string(seconds) != string(mcp.Int(int64((want+time.Second-1)/time.Second)))) {
			t.Errorf("to wait %s ms, %s s; want %s", ms, seconds, want)
		}
	}
	refused(by("ann", fake.Tool("a")), want)
	limited = false
	calls := func() int { return len(f.Requests(mcp.MethodToolsCall)) }
	before := calls()
	if want > 0 {
		time.Sleep(time.Second + time.Millisecond)
		brief := fake.Tool("b")
		brief.Session, brief.Ephemeral = "user:~1", true
		for _, c := range []*mcp.Call{fake.Tool("a"), brief, fake.Asked("c")} {
			refused(by("ann", c), want-time.Second-time.Millisecond)
		}
		if n := calls() - before; n > 0 {
			t.Errorf("the server got %d calls that it wanted to wait", n)
		}
		fake.WantOK(t, u, by("bob", fake.Tool("a")))
		fake.WantOK(t, u, fake.Tool("a")) // without a user
		if _, err := fake.Do(t, u, by("ann", &mcp.Call{Method: mcp.MethodDiscover, Notify: func(mcp.Event) {}})); err != nil {
			t.Errorf("who asks how the server is: %v", err)
		}
		if s := u.Status(); s.State != upstream.StateReady || s.Last.Error != "" {
			t.Errorf("the upstream is %+v", s)
		}
		time.Sleep(want - time.Second - 2*time.Millisecond)
		refused(by("ann", fake.Tool("a")), time.Millisecond)
		time.Sleep(time.Millisecond)
	}
	fake.WantOK(t, u, by("ann", fake.Tool("a")))
}

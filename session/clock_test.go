package session

import (
	"testing"
	"time"
	"unsafe"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// jumped returns a time as if the wall clock had jumped since it was taken; the monotonic
// reading stays the same. No package can set only one of the clocks.
func jumped(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	was := at
	wall := (*uint64)(unsafe.Pointer(&at)) // the first field: a flag, 33 bits of seconds, 30 of nanoseconds
	*wall -= uint64(by/time.Second) << 30
	if at.Sub(was) != 0 || was.Round(0).Sub(at.Round(0)) != by {
		t.Fatal("package time keeps its times in another way now")
	}
	return at
}

// TestClockJumps: setting the wall clock neither ends a session nor prolongs it.
func TestClockJumps(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			m, err := NewMemory(Config{IdleTimeout: 30 * time.Minute}, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.homes.Close(t.Context())
			r, err := m.Create(t.Context(), Record{User: "u"})
			if err != nil {
				t.Fatal(err)
			}
			before := m.clock()
			m.began = jumped(t, m.began, by)
			if passed := m.clock() - before; passed < 0 || passed > time.Minute {
				t.Errorf("%s have passed", passed)
			}
			if m.homes.Sweep(t.Context(), false); m.homes.Len() != 1 {
				t.Error("the session was ended")
			}
			h, err := m.homes.Use(t.Context(), home.Key{User: r.User, ID: r.ID})
			if err != nil {
				t.Fatalf("the session: %v", err)
			}
			h.Done()
		})
	}
}

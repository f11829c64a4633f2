package session

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The bytes that all logs hold are counted exactly, whatever becomes of the events. A count
// that drifts would one day stop all resumption, or would bound nothing.
func TestLogBytesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, a := openMemory(t)
		want := func(what string, want int64) {
			t.Helper()
			if got := m.logRoom.Held(); got != want {
				t.Errorf("%s: %d bytes are counted, want %d", what, got, want)
			}
		}
		add := func(h *home.Home, stream string, n int) {
			t.Helper()
			if _, err := m.Log().Append(t.Context(), h, stream, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}

		b := begin(t, m, "ann")
		add(a, "s", 100)
		add(a, "t", 10)
		add(b, "s", 1)
		want("added", 111)
		add(a, "s", LogBytes)
		want("pushed out by bytes", 11+LogBytes)
		for range LogEvents {
			add(a, "s", 2)
		}
		want("pushed out by number", 11+2*LogEvents)
		if err := m.Log().End(t.Context(), a, "s"); err != nil {
			t.Fatal(err)
		}
		want("ended", 11+2*LogEvents)
		time.Sleep(streamKept + time.Minute)
		want("forgotten", 11)
		for i := range LogStreams {
			time.Sleep(time.Second)
			add(a, fmt.Sprint(i), 3)
		}
		want("an old stream evicted", 1+3*LogStreams)
		if err := a.End(t.Context(), home.Ended); err != nil {
			t.Fatal(err)
		}
		want("the session deleted", 1)
		time.Sleep(DefaultIdleTimeout + time.Minute)
		want("the other idle for too long", 0)
	})
}

func TestLogIsFull(t *testing.T) {
	m, h := openMemory(t)
	var last uint64
	add := func(n int) {
		t.Helper()
		var err error
		if last, err = m.Log().Append(t.Context(), h, "s", make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	const others = maxLogBytes - 15
	m.logRoom.Outside("", "bob").Hold(others) // as if other users held that much
	add(5)
	if events, _, _, err := m.Log().Read(t.Context(), h, "s", 0); err != nil || len(events) != 2 {
		t.Errorf("exactly full: %d events, %v", len(events), err)
	}
	seen := last
	add(1)
	events, _, _, err := m.Log().Read(t.Context(), h, "s", seen)
	if !errors.Is(err, ErrGap) || len(events) != 0 {
		t.Errorf("more than full: %d events, %v, want a gap", len(events), err)
	}
	if _, _, _, err := m.Log().Read(t.Context(), h, "s", last); err != nil {
		t.Errorf("a reader that has seen all: %v", err)
	}
	if got := m.logRoom.Held() - others; got != 0 {
		t.Errorf("the stream holds %d bytes, want none", got)
	}
	add(3)
	if events, _, _, err := m.Log().Read(t.Context(), h, "s", last-1); err != nil || len(events) != 1 {
		t.Errorf("with room again: %d events, %v", len(events), err)
	}
}

// TestEventLogsOfOneUser: the logs of one user leave half of the room to others. Without
// authentication there is one user, who has all of it.
func TestEventLogsOfOneUser(t *testing.T) {
	m, _ := openMemory(t)
	kept := func(user string, held int64) bool {
		t.Helper()
		h := begin(t, m, user)
		other := m.logRoom.Outside("", user)
		other.Hold(held) // as if another session of the user held that much
		last, err := m.Log().Append(t.Context(), h, "s", []byte("event"))
		if err != nil {
			t.Fatal(err)
		}
		events, _, _, err := m.Log().Read(t.Context(), h, "s", last-1)
		if err != nil && !errors.Is(err, ErrGap) {
			t.Fatal(err)
		}
		other.Give(held)
		return len(events) == 1
	}
	if !kept("alice", maxLogBytes/2-5) || kept("alice", maxLogBytes/2-4) {
		t.Error("alice's logs have another share than half")
	}
	if anonymous := (mcp.Caller{}).User(); !kept(anonymous, maxLogBytes/2+100) {
		t.Error("without authentication there is one user, whose logs have a share")
	}
}

// ends are the Events of a store, and a token for each home that is over.
type ends chan home.Why

func (e ends) Opened(*home.Home)                 {}
func (e ends) Closed(_ *home.Home, why home.Why) { e <- why }

// TestDroppedWhileRead: a session that is over here while a stream of it is looked up says nothing
// of the stream. A client that resumes it must not hear that the stream is gone: another replica
// has it, or this one again.
func TestDroppedWhileRead(t *testing.T) {
	for why, want := range map[home.Why]error{
		home.Moved: ErrMoved, home.Left: ErrMoved, home.Gone: ErrNotFound, home.Ended: ErrNotFound,
	} {
		over := make(ends, 1)
		m, err := NewMemory(Config{}, Deps{Homes: home.Config{Events: over}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.homes.Close(t.Context())
		h := begin(t, m, "u")
		l := eventLog{&m.sessions}
		if _, err := l.Append(t.Context(), h, "s", nil); err != nil {
			t.Fatal(err)
		}
		meanwhile := l.with(t.Context(), h, func(x *held) error {
			h.EndLater(why)
			<-over
			return x.log.end("s", 0)
		})
		_, _, _, read := l.Read(t.Context(), h, "s", 0)
		_, requested := l.Request(t.Context(), h, "s")
		_, appended := l.Append(t.Context(), h, "s", nil)
		for what, err := range map[string]error{
			"meanwhile": meanwhile, "Read": read, "Request": requested, "End": l.End(t.Context(), h, "s"), "Append": appended,
		} {
			if !errors.Is(err, want) {
				t.Errorf("why %d, %s: %v, want %v", why, what, err, want)
			}
		}
	}
}

// TestDroppedStreams: what was dropped says that, whatever is asked of it, and nothing is written
// of it: Redis would lose streams that are only unknown here.
func TestDroppedStreams(t *testing.T) {
	x, k := &held{}, home.Key{User: "u"}
	x.log.room = mcp.NewMemory(1<<20).Outside("", "u")
	x.log.byName = map[string]*stream{"s": {description: description{Last: 1}}}
	x.log.close()
	_, _, added := x.log.add("s", nil, logged{}, false, 0)
	_, requested := x.log.answers("s", 0)
	_, _, _, read := x.log.read("s", 0, 0)
	for what, err := range map[string]error{"add": added, "end": x.log.end("s", 0), "answers": requested, "read": read} {
		if !errors.Is(err, errDropped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, _, err := (&Redis{}).takeChanges(k, x); !errors.Is(err, errDropped) {
		t.Errorf("it is written: %v", err)
	}
	if (&Redis{}).restore(k, x, "1", "0", []any{}, []any{}); x.log.byName["s"] != nil || !x.log.closed {
		t.Error("it is restored")
	}
}

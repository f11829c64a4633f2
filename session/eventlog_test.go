package session

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// The bytes that all logs hold are counted exactly, whatever becomes of the events. A count
// that drifts would one day stop all resumption, or would bound nothing.
func TestLogBytesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := NewMemory(Config{}, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		want := func(what string, want int64) {
			t.Helper()
			if got := m.logRoom.held(); got != want {
				t.Errorf("%s: %d bytes are counted, want %d", what, got, want)
			}
		}
		add := func(r Record, stream string, n int) {
			t.Helper()
			if _, err := m.Log().Append(t.Context(), r.Key(), stream, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		create := func() Record {
			t.Helper()
			r, err := m.Create(t.Context(), Record{User: "alice"})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}

		a, b := create(), create()
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
		if err := m.Log().End(t.Context(), a.Key(), "s"); err != nil {
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
		if err := m.Delete(t.Context(), "alice", a.ID); err != nil {
			t.Fatal(err)
		}
		want("the session deleted", 1)
		time.Sleep(DefaultIdleTimeout + time.Minute)
		want("the other idle for too long", 0)
	})
}

func TestLogIsFull(t *testing.T) {
	m, err := NewMemory(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := m.Create(t.Context(), Record{User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	var last uint64
	add := func(n int) {
		t.Helper()
		if last, err = m.Log().Append(t.Context(), r.Key(), "s", make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	const others = maxLogBytes - 15
	m.logRoom.change("bob", others) // as if other users held that much
	add(5)
	if events, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", 0); err != nil || len(events) != 2 {
		t.Errorf("exactly full: %d events, %v", len(events), err)
	}
	seen := last
	add(1)
	events, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", seen)
	if !errors.Is(err, ErrGap) || len(events) != 0 {
		t.Errorf("more than full: %d events, %v, want a gap", len(events), err)
	}
	if _, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", last); err != nil {
		t.Errorf("a reader that has seen all: %v", err)
	}
	if got := m.logRoom.held() - others; got != 0 {
		t.Errorf("the stream holds %d bytes, want none", got)
	}
	add(3)
	if events, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", last-1); err != nil || len(events) != 1 {
		t.Errorf("with room again: %d events, %v", len(events), err)
	}
}

// TestEventLogsOfOneUser: the logs of one user leave half of the room to others. Without
// authentication there is one user, who has all of it.
func TestEventLogsOfOneUser(t *testing.T) {
	m, err := NewMemory(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() }) // it never fails
	kept := func(user string, held int) bool {
		t.Helper()
		r, err := m.Create(t.Context(), Record{User: user, Revision: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		m.logRoom.change(user, held) // as if another session of the user held that much
		last, err := m.Log().Append(t.Context(), r.Key(), "s", []byte("event"))
		if err != nil {
			t.Fatal(err)
		}
		events, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", last-1)
		if err != nil && !errors.Is(err, ErrGap) {
			t.Fatal(err)
		}
		m.logRoom.change(user, -held)
		return len(events) == 1
	}
	if !kept("alice", maxLogBytes/2-5) || kept("alice", maxLogBytes/2-4) {
		t.Error("alice's logs have another share than half")
	}
	if anonymous := (mcp.Caller{}).User(); !kept(anonymous, maxLogBytes/2+100) {
		t.Error("without authentication there is one user, whose logs have a share")
	}
}

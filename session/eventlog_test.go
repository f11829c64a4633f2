package session

import (
	"context"
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
			if got := m.logRoom.Held(); got != want {
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
	m.logRoom.Outside("", "bob").Hold(others) // as if other users held that much
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
	if got := m.logRoom.Held() - others; got != 0 {
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
	kept := func(user string, held int64) bool {
		t.Helper()
		r, err := m.Create(t.Context(), Record{User: user, Revision: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		other := m.logRoom.Outside("", user)
		other.Hold(held) // as if another session of the user held that much
		last, err := m.Log().Append(t.Context(), r.Key(), "s", []byte("event"))
		if err != nil {
			t.Fatal(err)
		}
		events, _, _, err := m.Log().Read(t.Context(), r.Key(), "s", last-1)
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

// dropper is a place with one session, which has one stream. As a replica does that gives the
// session up, it drops what is loaded, a number of times.
type dropper struct {
	s     *sessions
	drops int
	then  error // of further loads
}

func (p *dropper) load(_ context.Context, h *held) error {
	if p.drops == 0 && p.then != nil {
		return p.then
	}
	h.log.mu.Lock()
	h.log.byName = map[string]*stream{"s": {events: []logged{{Event: Event{Seq: 1}}}, description: description{Last: 1}}}
	h.log.mu.Unlock()
	h.record.Store(&Record{User: h.name.user, ID: h.name.id})
	if p.drops > 0 {
		p.drops--
		p.s.drop(h)
	}
	return nil
}

func (p *dropper) write(context.Context, *held, change) error          { return nil }
func (p *dropper) remove(context.Context, *held, time.Duration) error  { return nil }
func (p *dropper) fetch(context.Context, *held, string, []Event) error { return nil }
func (p *dropper) swept(context.Context)                               {}

// TestDroppedWhileRead: a session that is given up while a stream of it is looked up says nothing
// of the stream. A client that resumes it must not hear that the stream is gone: another replica
// has it, or this one again.
func TestDroppedWhileRead(t *testing.T) {
	key := name{"u", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}.key()
	for name, tt := range map[string]struct {
		then, want error
	}{
		"another replica owns it": {ErrMoved, ErrMoved},
		"this one owns it again":  {nil, nil},
		"it has ended":            {ErrNotFound, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			for what, use := range map[string]func(EventLog) error{
				"Read":    func(l EventLog) error { _, _, _, err := l.Read(t.Context(), key, "s", 0); return err },
				"Request": func(l EventLog) error { _, err := l.Request(t.Context(), key, "s"); return err },
				"End":     func(l EventLog) error { return l.End(t.Context(), key, "s") },
				"Append":  func(l EventLog) error { _, err := l.Append(t.Context(), key, "s", nil); return err },
			} {
				s := &sessions{}
				if err := s.set(Config{}, Deps{clock: func() time.Duration { return time.Hour }}); err != nil {
					t.Fatal(err)
				}
				s.place = &dropper{s, 2, tt.then}
				if err := use(s.Log()); !errors.Is(err, tt.want) || tt.want == nil && err != nil {
					t.Errorf("%s: %v, want %v", what, err, tt.want)
				}
			}
		})
	}
}

// TestDroppedStreams: what was dropped says that, whatever is asked of it, and nothing is written
// of it: Redis would lose streams that are only unknown here.
func TestDroppedStreams(t *testing.T) {
	h := &held{log: streams{room: mcp.NewMemory(1<<20).Outside("", "u"), byName: map[string]*stream{"s": {description: description{Last: 1}}}}}
	h.log.close()
	_, _, added := h.log.add("s", nil, logged{}, false, 0)
	_, requested := h.log.answers("s", 0)
	_, _, _, read := h.log.read("s", 0, 0)
	for what, err := range map[string]error{"add": added, "end": h.log.end("s", 0), "answers": requested, "read": read} {
		if !errors.Is(err, errDropped) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, _, err := (&Redis{}).takeChanges(h); !errors.Is(err, errDropped) {
		t.Errorf("it is written: %v", err)
	}
	if (&Redis{}).restore(h, "1", "0", []any{}, []any{}); h.log.byName["s"] != nil || !h.log.closed {
		t.Error("it is restored")
	}
}

package live

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestLeave: a replica that stops gives up the sessions for which nothing runs. A session of
// HTTP+SSE ends with its stream; until then its messages are served here.
func TestLeave(t *testing.T) {
	var givenUp []string
	store, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	all := NewSessions(Deps{Store: store, NewID: func() string { return "x-1" }, GiveUp: func(key string) { givenUp = append(givenUp, key) }})
	idle, _ := all.hold("u:idle", false)
	sse, _ := all.hold("u:sse", false)
	open := sse.OpenPlain(&stream.Stream{})
	all.Leave(t.Context())
	select {
	case <-open.Over():
	default:
		t.Error("the stream of HTTP+SSE stays open")
	}
	if !slices.Equal(givenUp, []string{"u:idle"}) {
		t.Errorf("given up: %q", givenUp)
	}
	var c Call
	if err := sse.Start(t.Context(), []byte("1"), &c); err != nil {
		t.Errorf("a call that came before the end of the stream: %v", err)
	}
	sse.all.EndSession(sse.key)
	c.cancel(nil)
	if err := idle.Start(t.Context(), []byte("1"), &c); err == nil {
		t.Error("a call begins in a session that was given up")
	}
}

// TestLeaveIsBounded: a replica that stops gives up several sessions at a time, and no more of them
// once its time for that is over, such as when Redis does not answer. The others stay as they are.
func TestLeaveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var givenUp atomic.Int64
		all := NewSessions(Deps{GiveUp: func(string) {
			time.Sleep(time.Second)
			givenUp.Add(1)
		}})
		for i := range 10 * leavers {
			all.hold("u:"+strconv.Itoa(i), false)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		began := time.Now()
		all.Leave(ctx)
		if took := time.Since(began); took != 2*time.Second || givenUp.Load() != 2*leavers {
			t.Errorf("after %s, %d are given up", took, givenUp.Load())
		}
		if left := all.Load().Sessions; left != 8*leavers {
			t.Errorf("%d are held", left)
		}
		for _, s := range all.list() {
			var c Call
			if err := s.Start(t.Context(), []byte("1"), &c); err != nil {
				t.Fatalf("a call in a session that was not given up: %v", err)
			}
			c.cancel(nil)
		}
	})
}

package live

import (
	"slices"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// nowhere is a client that reads nothing.
type nowhere struct{}

func (nowhere) Send(string, []byte) bool { return false }
func (nowhere) Usable() bool             { return false }

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
	stream := sse.OpenPlain(nowhere{})
	all.Leave()
	select {
	case <-stream.Over():
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

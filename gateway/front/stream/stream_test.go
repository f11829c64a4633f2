package stream

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// gated is a ResponseWriter on which each write waits to be let through.
type gated struct {
	http.ResponseWriter
	pass chan struct{}
}

func (g gated) Write(p []byte) (int, error) {
	<-g.pass
	return g.ResponseWriter.Write(p)
}

func (g gated) FlushError() error { return nil }

// TestForce: an event that must not be lost waits for room, even if other events keep coming.
func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gated{httptest.NewRecorder(), make(chan struct{})}
		s := newWriter(nil).Begin(g, http.NewResponseController(g), "", nil)
		event := []byte(strings.Repeat("x", 1000))
		fill := func() {
			for s.Send("", event) {
			}
			synctest.Wait()
		}
		s.Open()
		synctest.Wait()
		fill()
		answered := make(chan bool, 1)
		go func() { answered <- s.Force("", event) }()
		synctest.Wait()
		if len(answered) > 0 {
			t.Error("there was room")
		}
		g.pass <- struct{}{} // the first write: everything that waits is being written now
		synctest.Wait()
		fill()
		if len(answered) == 0 || !<-answered {
			t.Error("it still waits, or was lost")
		}
		close(g.pass)
		s.End("", nil)
	})
}

// TestUrgentTakesWhatGathers: an urgent event takes along what waits for more, and nothing is
// written when the wait would have ended. The memory of one stream does not show in another.
func TestUrgentTakesWhatGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := httptest.NewRecorder(), httptest.NewRecorder()
		a := newWriter(nil).Begin(one, http.NewResponseController(one), "", nil)
		b := newWriter(nil).Begin(other, http.NewResponseController(other), "", nil)
		a.Send("", []byte("1"))
		synctest.Wait()
		if one.Body.Len() > 0 {
			t.Errorf("did not wait: %q", one.Body)
		}
		a.Force("", []byte("2"))
		synctest.Wait()
		b.Send("", []byte("3"))
		time.Sleep(2 * Gather)
		synctest.Wait()
		a.End("", []byte("4"))
		b.End("", nil)
		if got, want := one.Body.String(), "data: 1\n\ndata: 2\n\ndata: 4\n\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := other.Body.String(), "data: 3\n\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

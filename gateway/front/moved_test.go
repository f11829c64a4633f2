package front

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestH064_AStreamThatMoves: what changes while a session's stream moves to another
// replica is told there once, whether one of them heard it or both.
func TestH064_AStreamThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScript(), newScript()
		confirm := make(chan struct{})
		fronts, _ := replicaFronts(t, a.Handle, func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Method == mcp.MethodListen {
				<-confirm
			}
			return b.Handle(ctx, c)
		})
		record, err := fronts["a"].sessions.Create(t.Context(), session.Record{User: goodFor(0).User(), Client: "app", Revision: v2511, Caps: mcp.Raw("{}"), Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{wire.HeaderSession: {record.ID}}
		_, leave, left := serveTo(fronts["a"], goodFor(time.Hour), "GET", "", h)
		synctest.Wait()
		leave()
		<-left
		a.emit(mcp.NotePromptsListChanged, `{}`) // waits there
		w, cancel, done := serveTo(fronts["b"], goodFor(time.Hour), "GET", "", h)
		defer func() {
			cancel()
			<-done
		}()
		synctest.Wait()
		a.emit(mcp.NoteToolsListChanged, `{}`)
		a.emit(mcp.NoteResourceUpdated, `{"uri":"doc://1"}`)
		close(confirm)
		b.waitListening(t, 1)
		b.emit(mcp.NoteToolsListChanged, `{}`)
		time.Sleep(handedOnWait / 2)
		b.emit(mcp.NoteResourceUpdated, `{"uri":"doc://1"}`)
		told := func(after time.Duration, want int, method string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if n := strings.Count(w.String(), `"method":"`+method+`"`); n != want {
				t.Errorf("H/64 %s was told %d times, want %d: %s", method, n, want, w)
			}
		}
		told(time.Second, 1, mcp.NoteToolsListChanged)
		told(0, 1, mcp.NoteResourceUpdated)
		told(0, 1, mcp.NotePromptsListChanged)
		b.emit(mcp.NoteToolsListChanged, `{}`) // another change
		told(time.Second, 2, mcp.NoteToolsListChanged)
		a.waitListening(t, 0)
	})
}

// TestH064_TwoStreams: while the client has a stream at two replicas it is told on the newer
// one alone, also while both listen; and on the older one when the newer has ended, or its
// replica has gone.
func TestH064_TwoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScript(), newScript()
		confirm := make(chan struct{})
		fronts, posts := replicaFronts(t, a.Handle, func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			if c.Method != mcp.MethodListen {
				return b.Handle(ctx, c)
			}
			<-confirm
			listens := c.Clone()
			listens.Notify = func(e mcp.Event) {
				if e.Method == mcp.NoteAcknowledged { // by now both listen
					a.emit(mcp.NoteToolsListChanged, `{}`)
					c.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
				}
				c.Notify(e)
			}
			return b.Handle(ctx, listens)
		})
		record, err := fronts["a"].sessions.Create(t.Context(), session.Record{User: goodFor(0).User(), Client: "app", Revision: v2511, Caps: mcp.Raw("{}"), Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{wire.HeaderSession: {record.ID}}
		get := func(replica string) (w *recorder, leave func()) {
			w, cancel, done := serveTo(fronts[replica], goodFor(time.Hour), "GET", "", h)
			leave = func() {
				cancel()
				<-done
			}
			t.Cleanup(leave)
			synctest.Wait()
			return w, leave
		}
		older, _ := get("a")
		a.waitListening(t, 1)
		newer, leave := get("b")
		told := func(method string, inOlder, inNewer int) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			for _, s := range []struct {
				name string
				w    *recorder
				want int
			}{{"older", older, inOlder}, {"newer", newer, inNewer}} {
				if n := strings.Count(s.w.String(), `"method":"`+method+`"`); n != s.want {
					t.Errorf("H/64 %s was told %d times on the %s stream, want %d", method, n, s.name, s.want)
				}
			}
		}
		a.emit(mcp.NotePromptsListChanged, `{}`) // the other one does not listen yet
		told(mcp.NotePromptsListChanged, 0, 1)
		close(confirm)
		b.waitListening(t, 1)
		told(mcp.NoteToolsListChanged, 0, 1)
		a.waitListening(t, 0)

		leave()
		a.waitListening(t, 1)
		a.emit(mcp.NoteResourcesListChanged, `{}`)
		told(mcp.NoteResourcesListChanged, 1, 0)
		newer, _ = get("b")
		a.waitListening(t, 0)
		told(mcp.NoteToolsListChanged, 0, 1)

		posts["a"].lose("b")
		a.waitListening(t, 1)
		told(mcp.NoteToolsListChanged, 1, 1) // something may have been missed
		a.emit(mcp.NoteToolsListChanged, `{}`)
		told(mcp.NoteToolsListChanged, 2, 1)
	})
}

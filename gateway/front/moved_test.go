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

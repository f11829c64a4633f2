package front

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// deaf is a post whose letters nobody hears for a while.
type deaf struct {
	*post
	until time.Time
}

func (d *deaf) Send(ctx context.Context, replica string, message []byte) error {
	if time.Now().Before(d.until) {
		return session.ErrNobody
	}
	return d.post.Send(ctx, replica, message)
}

// A call at a place of another replica is made there, past that one's pipeline; who does not
// get it says so, or does not have to.
func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, posts := replicaFronts(t, unexpected, unexpected)
		var made int
		fronts["b"].direct = func(_ context.Context, place string, c *mcp.Call) (*mcp.Reply, error) {
			if place != "p" {
				return nil, ErrNotThere
			}
			made++
			return result(`{"by":"` + c.Name + `"}`), nil
		}
		forward := func(replica, place string) (*mcp.Reply, error) {
			return fronts["a"].Forward(t.Context(), replica, place, &mcp.Call{Method: mcp.MethodToolsCall, Name: "n", Notify: func(mcp.Event) {}})
		}
		if r, err := forward("b", "p"); err != nil || string(r.Result) != `{"by":"n"}` {
			t.Errorf("got %+v, %v", r, err)
		}
		if _, err := forward("b", "other"); !errors.Is(err, ErrNotThere) {
			t.Errorf("another place: %v", err)
		}
		synctest.Wait() // until it has said that the replies have come
		posts["a"].fail(1)
		if _, err := forward("b", "p"); !errors.Is(err, ErrUnheard) {
			t.Errorf("without Redis: %v", err)
		}
		synctest.Wait()
		fronts["a"].mail = &deaf{posts["a"], time.Now().Add(5 * time.Second)}
		if r, err := forward("b", "p"); err != nil || r == nil || made != 2 {
			t.Errorf("who listens late: %+v, %v; made %d times", r, err, made)
		}
		synctest.Wait()
		fronts["a"].mail = &deaf{posts["a"], time.Now().Add(time.Hour)}
		if _, err := forward("b", "p"); !errors.Is(err, ErrUnheard) {
			t.Errorf("who does not listen: %v", err)
		}
		time.AfterFunc(time.Second, func() { posts["a"].lose("b") })
		if _, err := forward("b", "p"); !errors.Is(err, ErrNotThere) {
			t.Errorf("who has gone before it: %v", err)
		}
		if made != 2 {
			t.Errorf("made %d times", made)
		}
	})
}

// Replicas hear letters for a while after their front has closed: whoever forwards a call to
// one is told that it was not made.
func TestForwardToAClosedFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fronts, _ := replicaFronts(t, unexpected, unexpected)
		if err := fronts["b"].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err := fronts["a"].Forward(t.Context(), "b", "p", &mcp.Call{Method: mcp.MethodToolsCall, Name: "n", Notify: func(mcp.Event) {}})
		if !errors.Is(err, ErrNotThere) || time.Since(begun) != 0 {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
	})
}

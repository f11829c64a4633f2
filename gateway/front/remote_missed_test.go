package front

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// become waits until something is so.
func become(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick, ctx := time.NewTicker(time.Millisecond), soon(t)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: it does not come to that", what)
		}
	}
}

// twoReplicas are fronts with one server behind them, and a client of a with a stream and a
// subscription.
func twoReplicas(t *testing.T) (s *script, fronts map[string]*Front, posts map[string]*post, c *mcptest.Client, stream *mcptest.Exchange) {
	t.Helper()
	s = newScript()
	fronts, posts = replicaFronts(t, s.Handle, s.Handle)
	c, user := clientOf(t, fronts["a"], v2511)
	stream, err := c.Get(soon(t), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stream.Close)
	become(t, "a has the stream", func() bool {
		r, err := fronts["a"].sessions.Update(t.Context(), user, c.Session, func(*session.Record) {})
		return err == nil && r.Standing == "a"
	})
	wantSubscribed(t, c, "doc://1")
	return s, fronts, posts, c, stream
}

func wantSubscribed(t *testing.T, c *mcptest.Client, uri string) {
	t.Helper()
	if m, _, err := c.Call(soon(t), mcp.MethodResourcesSubscribe, `{"uri":"`+uri+`"}`); err != nil || m.Error != nil {
		t.Fatalf("%s: %s %v", uri, m.Text, err)
	}
}

// at is the client at another replica.
func at(t *testing.T, f *Front, c *mcptest.Client) *mcptest.Client {
	t.Helper()
	other, _ := clientOf(t, f, v2511)
	other.Session = c.Session
	return other
}

// A client that comes to another replica is told that what it follows may have changed,
// unless the replica that had its stream has heard it until then.
func TestStreamThatMoves(t *testing.T) {
	for _, tt := range []struct {
		name   string
		befall func(*testing.T, map[string]*Front, map[string]*post, *mcptest.Exchange)
		missed bool
	}{
		{"its replica is there", func(*testing.T, map[string]*Front, map[string]*post, *mcptest.Exchange) {}, false},
		{"its client has left it", func(t *testing.T, fronts map[string]*Front, _ map[string]*post, stream *mcptest.Exchange) {
			stream.Close()
			become(t, "a has no stream", func() bool { return noStreams(fronts["a"]) })
		}, false},
		{"its replica has gone", func(_ *testing.T, fronts map[string]*Front, posts map[string]*post, _ *mcptest.Exchange) {
			posts["b"].others = map[string]*Front{"b": fronts["b"]}
			posts["b"].lose("a")
		}, true},
		{"nobody knows of its replica", func(_ *testing.T, fronts map[string]*Front, posts map[string]*post, _ *mcptest.Exchange) {
			posts["b"].others = map[string]*Front{"b": fronts["b"]}
		}, true},
		{"its replica stops", func(t *testing.T, fronts map[string]*Front, _ map[string]*post, _ *mcptest.Exchange) {
			fronts["a"].Drain(true)
			become(t, "a has no stream", func() bool { return noStreams(fronts["a"]) })
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, fronts, posts, c, old := twoReplicas(t)
			tt.befall(t, fronts, posts, old)
			stream, err := at(t, fronts["b"], c).Get(soon(t), "")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if tt.missed {
				if _, err := stream.Until(mcp.NoteResourceUpdated); err != nil {
					t.Fatalf("that something was missed: %v", err)
				}
				return
			}
			become(t, "b listens alone", func() bool {
				l := fronts["b"].known(keyOfSession(fronts["b"], c.Session))
				return l != nil && l.honours("doc://1") && fronts["a"].known(l.key).deafened() && expectsNothing(fronts["b"])
			})
			s.emit(mcp.NotePromptsListChanged, `{}`)
			if m, err := stream.Next(); err != nil || m.Method != mcp.NotePromptsListChanged {
				t.Errorf("got %s %v, and nothing was missed", m.Text, err)
			}
		})
	}
}

func noStreams(f *Front) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lives {
		l.mu.Lock()
		n := len(l.streams)
		l.mu.Unlock()
		if n > 0 {
			return false
		}
	}
	return true
}

func keyOfSession(f *Front, id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, l := range f.lives {
		if l.id == id {
			return key
		}
	}
	return ""
}

func expectsNothing(f *Front) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pending) == 0
}

// deafened reports whether nothing is heard for the session here.
func (l *live) deafened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard == nil || closed(l.heard.ended)
}

// What is subscribed to at another replica than that with the stream comes to that, though
// letters are lost.
func TestSubscribedThoughLettersAreLost(t *testing.T) {
	_, fronts, posts, c, _ := twoReplicas(t)
	other := at(t, fronts["b"], c)
	posts["b"].fail(1)
	wantSubscribed(t, other, "doc://2")
	l := fronts["a"].known(keyOfSession(fronts["a"], c.Session))
	become(t, "a listens to it", func() bool { return l.honours("doc://2") })
	become(t, "b leaves it to a", func() bool { return fronts["b"].known(l.key).deafened() && expectsNothing(fronts["b"]) })
}

// awayUpdates is a store in which some first changes cannot be made.
type awayUpdates struct {
	session.Store
	left atomic.Int64
}

func (s *awayUpdates) Update(ctx context.Context, user, id string, change func(*session.Record)) (session.Record, error) {
	if s.left.Add(-1) >= 0 {
		return session.Record{}, session.ErrUnavailable
	}
	return s.Store.Update(ctx, user, id, change)
}

// A replica that has a stream while Redis is away has it for all when Redis is back.
func TestStreamWithoutStore(t *testing.T) {
	s := newScript()
	fronts, _ := replicaFronts(t, s.Handle, s.Handle)
	c, user := clientOf(t, fronts["a"], v2511)
	store := fronts["a"].sessions
	away := &awayUpdates{Store: store}
	away.left.Store(1)
	fronts["a"].sessions = away
	stream, err := c.Get(soon(t), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	become(t, "a has the stream", func() bool {
		r, err := store.Get(t.Context(), user, c.Session)
		return err == nil && r.Standing == "a"
	})
}

// A replica that stops does not wait until another one has taken what it brings.
func TestNobodyTakesIt(t *testing.T) {
	_, fronts, posts, c, _ := twoReplicas(t)
	other := at(t, fronts["b"], c)
	posts["b"].fail(1000)
	wantSubscribed(t, other, "doc://2")
	ctx, cancel := context.WithTimeout(t.Context(), answerTime/2)
	defer cancel()
	if err := fronts["b"].Close(ctx); err != nil {
		t.Error(err)
	}
}

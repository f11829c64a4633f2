package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// client is the client of a call. It handles a question as the test says.
type client struct {
	put       func(id mcp.Raw, q mcp.InputRequest)
	withdrawn []string // the reasons
}

func (c *client) PutQuestion(id mcp.Raw, q mcp.InputRequest) bool {
	c.put(id, q)
	return true
}

func (c *client) Answered(_, _ mcp.Raw, _ *mcp.Error) {}

func (c *client) WithdrawQuestion(_ mcp.Raw, why string) { c.withdrawn = append(c.withdrawn, why) }

// callOf returns a call of a session of which nothing is known yet.
func callOf(t *testing.T) (*Session, *Call) {
	t.Helper()
	store, err := session.NewMemory(session.Config{}, session.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r, err := store.Create(t.Context(), session.Record{User: "u"})
	if err != nil {
		t.Fatal(err)
	}
	s := NewSessions(Deps{Store: store,
		NewID: func() string { return "x-1" }}).Of(store.Homes().Known(home.ParseKey(r.Key())))
	var c Call
	if err := s.Start(t.Context(), mcp.Raw("1"), &c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return s, &c
}

// TestRootsThatChangeMeanwhile: an answer that was under way when the roots changed is not
// kept.
func TestRootsThatChangeMeanwhile(t *testing.T) {
	for _, changes := range []bool{false, true} {
		s, call := callOf(t)
		c := &client{put: func(id mcp.Raw, _ mcp.InputRequest) {
			if changes {
				s.RootsChanged()
			}
			s.Answered(wire.Message{ID: id, Result: mcp.Raw(`{"roots":[]}`)}, mcp.Caller{})
		}}
		got := NewAnswers(true)
		err := call.Ask(t.Context(), c, mcp.Raw(`{"roots":{"listChanged":true}}`),
			[]mcp.InputRequest{{Key: "r", Method: mcp.MethodRootsList}}, time.Minute, got)
		if err != nil || got.Given["r"] == nil {
			t.Fatalf("got %v, %v", got, err)
		}
		if kept := s.Roots() != nil; kept == changes {
			t.Errorf("they changed: %t, and what was answered is kept: %t", changes, kept)
		}
	}
}

// TestRetract: a question that its server withdraws ends without an answer. If it is withdrawn
// before it is put, it is not put at all.
func TestRetract(t *testing.T) {
	_, call := callOf(t)
	put := 0
	c := &client{put: func(_ mcp.Raw, q mcp.InputRequest) {
		put++
		call.Retract(q.Key)
	}}
	call.Retract("early")
	got := NewAnswers(true)
	err := call.Ask(t.Context(), c, nil, []mcp.InputRequest{{Key: "early", Method: mcp.MethodElicit},
		{Key: "late", Method: mcp.MethodElicit}}, time.Minute, got)
	if err != nil || put != 1 || len(c.withdrawn) != 1 || len(got.Given)+len(got.Refused) != 0 {
		t.Errorf("%d questions were put and %v withdrawn, with %v, %v", put, c.withdrawn, got, err)
	}
}

// TestTooManyQuestions: open questions are bounded, and a call that ends leaves none behind.
func TestTooManyQuestions(t *testing.T) {
	s, call := callOf(t)
	var many []mcp.InputRequest
	for range MaxQuestions + 1 {
		many = append(many, mcp.InputRequest{Key: "q", Method: mcp.MethodElicit})
	}
	ids := 0
	s.deps.NewID = func() string { ids++; return string(rune('a' + ids)) }
	put := 0
	c := &client{put: func(mcp.Raw, mcp.InputRequest) { put++ }}
	if err := call.Ask(t.Context(), c, nil, many, time.Minute, NewAnswers(true)); !errors.Is(err, ErrQuestions) ||
		put != MaxQuestions {
		t.Errorf("%d questions were put: %v", put, err)
	}
	if n := s.load().Questions; n != 0 {
		t.Errorf("%d questions are left", n)
	}
}

// TestQuestionsOfASessionThatIsOver: a question that comes between the end of a session and that of its
// calls ends as they do.
func TestQuestionsOfASessionThatIsOver(t *testing.T) {
	s, call := callOf(t)
	ending := make(chan struct{})
	s.home.Attach(func(home.Why) { <-ending })
	s.home.EndLater(home.Gone)
	asked := make(chan error)
	go func() {
		ask := []mcp.InputRequest{{Key: "q", Method: mcp.MethodElicit}}
		asked <- call.Ask(call.Context(), &client{}, nil, ask, time.Minute, NewAnswers(false))
	}()
	close(ending)
	if err := <-asked; !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(call.Context()), ErrEnded) {
		t.Errorf("the question ended with %v, the call with %v", err, context.Cause(call.Context()))
	}
}

package front

import (
	"context"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Whoever hears the letters does not wait for a session that is busy: Redis gives up
// on listeners who do not keep up, and all sessions miss what was said.
func TestMailOfBusySession(t *testing.T) {
	fronts, _ := replicaFronts(t, unexpected, unexpected)
	f := fronts["a"]
	record, err := f.sessions.Create(t.Context(), session.Record{User: "u", Revision: v2511, Initialized: true})
	if err != nil {
		t.Fatal(err)
	}
	l, ref := f.liveOf(t.Context(), record)
	if ref != nil {
		t.Fatal(ref.Err)
	}
	run := l.start(t.Context(), mcp.Raw("1"))
	defer l.stop(run)
	answers := make(chan answer, 1)
	id := mcp.String("gatehouse-a-1")
	if !l.expect(&question{id: id, answers: answers}) {
		t.Fatal("too many questions")
	}
	caller := fronts["b"].carry(mcp.NewCaller(mcp.Caller{Subject: "ann"}))
	heard := make(chan struct{})
	l.mu.Lock() // as while its events are written to Redis
	go func() {
		defer close(heard)
		for _, m := range []letter{
			{Kind: mailAnswer, ID: id, Result: []byte("{}"), Caller: caller, Number: "b-1"},
			{Kind: mailRoots},
			{Kind: mailEvents, Events: []remoteEvent{{Method: mcp.NoteToolsListChanged}}},
			{Kind: mailCancel, ID: []byte("1")},
		} {
			m.Session = l.key
			fronts["b"].tell(context.Background(), "a", m)
		}
	}()
	select {
	case <-heard:
	case <-soon(t).Done():
		t.Error("letters wait for a session")
	}
	l.mu.Unlock()
	for what, done := range map[string]<-chan struct{}{"the letters": heard, "the call": run.ctx.Done()} {
		select {
		case <-done:
		case <-soon(t).Done():
			t.Errorf("%s: no end", what)
		}
	}
	select {
	case <-answers:
	case <-soon(t).Done():
		t.Error("the answer does not come")
	}
}

// A cancellation of what can be no request concerns no replica.
func TestCancelOfNoRequest(t *testing.T) {
	fronts, posts := replicaFronts(t, unexpected, func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return discovered(c) })
	c, _ := clientOf(t, fronts["b"], v2511)
	for id, want := range map[string]int{"7": 1, `"` + strings.Repeat("x", wire.MaxID) + `"`: 0} {
		before := posts["b"].broadcasts()
		if _, err := c.Notify(soon(t), mcp.NoteCancelled, `{"requestId":`+id+`}`); err != nil {
			t.Fatal(err)
		}
		if told := posts["b"].broadcasts() - before; told != want {
			t.Errorf("an id of %d bytes: %d letters, want %d", len(id), told, want)
		}
	}
}

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func updated(uri string) mcp.Event {
	return mcp.Event{Method: mcp.NoteResourceUpdated, Params: mcp.Object("uri", mcp.String(uri))}
}

func subscribe(t *testing.T, s *State, uri string, subscribe func() error) {
	t.Helper()
	if err := s.Subscribe(t.Context(), uri, subscribe); err != nil {
		t.Error(err)
	}
}

func granted() error { return nil }

// An update from a server that clients share is for the subscribers of that resource. In a
// session of one client it may mean a part of another subscribed resource.
func TestUpdatesOfASharedSessionAreForSubscribersOnly(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := New(shared)
		bob := s.Listen(false)
		bob.Want(mcp.Filter{URIs: []string{"docs://bob"}})
		subscribe(t, s, "docs://bob", granted)
		said := func(uri string) int {
			s.Tell(updated(uri))
			events, _ := bob.Take()
			return len(events)
		}
		if n := said("docs://bob/part"); n != 1 {
			t.Errorf("shared %t: %d events of his own resource", shared, n)
		}
		want := 1
		if shared {
			want = 0
		}
		if n := said("docs://alice"); n != want {
			t.Errorf("shared %t: %d events of a resource that nobody subscribed to, want %d", shared, n, want)
		}
	}
}

func TestListener(t *testing.T) {
	s := New(false)
	l := s.Listen(false)
	l.Want(mcp.Filter{Tasks: []string{"mine"}, URIs: []string{"a:b"}})
	task := func(id string) mcp.Event {
		return mcp.Event{Method: mcp.NoteTask, Params: mcp.Object("taskId", mcp.String(id))}
	}
	for _, e := range []mcp.Event{task("mine"), task("other"), updated("a:b"), updated("a:b"),
		{Method: mcp.NoteToolsListChanged}} {
		s.Tell(e)
	}
	<-l.Wake()
	events, err := l.Take()
	if len(events) != 2 || err != nil {
		t.Errorf("events %v, error %v", events, err)
	}
	for i := range MaxPending + 1 {
		s.Tell(updated(fmt.Sprint("a:b/", i)))
	}
	if events, err = l.Take(); len(events) != MaxPending || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d events, error %v", len(events), err)
	}
	large := s.Listen(true)
	s.Tell(task("other"))
	s.Tell(task(strings.Repeat("x", maxPendingBytes)))
	if events, err = large.Take(); len(events) != 1 || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d events, error %v", len(events), err)
	}
	ended := errors.New("ended")
	s.End(ended)
	if _, err = large.Take(); !errors.Is(err, ended) {
		t.Errorf("error %v", err)
	}
	if uris := l.Close(); !slices.Equal(uris, []string{"a:b"}) {
		t.Errorf("it wanted %q", uris)
	}
}

// A resource is subscribed once for all its listeners, and again by the next listener if
// that failed. A listener that subscribes while it is being unsubscribed waits for that.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(false)
		var mu sync.Mutex
		requests, outcomes := 0, make(chan error)
		request := func() error {
			mu.Lock()
			requests++
			mu.Unlock()
			return <-outcomes
		}
		want := func(n int, uris ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if _, got := s.Restore(); requests != n || !slices.Equal(got, uris) {
				t.Errorf("%d requests, %q are subscribed, want %d, %q", requests, got, n, uris)
			}
		}
		errs := make(chan error, 3)
		begin := func(ctx context.Context) {
			go func() { errs <- s.Subscribe(ctx, "a:b", request) }()
			synctest.Wait()
		}
		refused := errors.New("refused")
		impatient, leave := context.WithCancel(t.Context())
		begin(t.Context())
		begin(t.Context())
		begin(impatient)
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who does not wait: %v", err)
		}
		want(1, "a:b")
		outcomes <- refused
		if err := <-errs; !errors.Is(err, refused) {
			t.Errorf("who asked: %v", err)
		}
		want(2, "a:b")
		outcomes <- nil
		if err := <-errs; err != nil {
			t.Errorf("who asked again: %v", err)
		}
		subscribe(t, s, "a:b", request)
		want(2, "a:b")
		if done := s.Unsubscribe("a:b"); done != nil {
			t.Error("it is unsubscribed while somebody listens")
		}
		if got := s.Wanted([]string{"a:b", "c:d"}); !slices.Equal(got, []string{"a:b"}) {
			t.Errorf("wanted %q", got)
		}
		done := s.Unsubscribe("a:b")
		want(2)
		begin(t.Context())
		want(2, "a:b")
		done()
		want(3, "a:b")
		outcomes <- nil
		if err := <-errs; err != nil {
			t.Error(err)
		}
		s.Unsubscribe("a:b")()
		want(3)
		if len(s.resources) != 0 {
			t.Errorf("%d resources are remembered", len(s.resources))
		}
	})
}

// What another replica takes over, or what ends anyway, is not unsubscribed.
func TestNothingIsUnsubscribedAfterTheEnd(t *testing.T) {
	s := New(false)
	subscribe(t, s, "a:b", granted)
	s.End(errors.New("ended"))
	if s.Unsubscribe("a:b") != nil {
		t.Error("the server is to be told")
	}
}

func TestPages(t *testing.T) {
	var p Pages
	first, again, other := p.Mint("n1", 1), p.Mint("n1", 2), p.Mint("", 3)
	if first != again || first == other || first == "n1" {
		t.Errorf("ids %q, %q, %q", first, again, other)
	}
	select {
	case <-p.Done(first):
		t.Error("done before it is complete")
	default:
	}
	if id, request, ok := p.Complete("n1"); id != first || request != 2 || !ok {
		t.Errorf("complete: %q of %d, %t", id, request, ok)
	}
	<-p.Done(first)
	for _, native := range []string{"n1", "", "unknown"} {
		if _, _, ok := p.Complete(native); ok {
			t.Errorf("%q is complete", native)
		}
	}
	for range maxPages - 1 {
		p.Mint("", 4)
	}
	if p.Done(first) != nil || p.Done(other) == nil {
		t.Error("it is not the oldest that is forgotten")
	}
}

func TestRoots(t *testing.T) {
	var r Roots
	asked := r.Changes()
	r.Changed()
	r.Learn(mcp.Raw(`{"roots":[1]}`), asked)
	if r.Answer() != nil || !r.Told() {
		t.Errorf("an answer from before they changed: %s, told %t", r.Answer(), r.Told())
	}
	r.Learn(mcp.Raw(`{"roots":[2]}`), r.Changes())
	r.Learn(mcp.Raw(strings.Repeat(" ", maxRoots+1)), r.Changes())
	if string(r.Answer()) != `{"roots":[2]}` {
		t.Errorf("answer %.40s", r.Answer())
	}
	r.Changed()
	if r.Answer() != nil {
		t.Error("they are known after they changed")
	}
}

package handover

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// pipeline has one list of tools that everybody sees, and one more tool for ann.
type pipeline struct {
	*Pipeline
	tools  []string
	secret string
	skills []mcp.Item
	grants []string // resources that are honoured
	over   chan struct{}

	mu     sync.Mutex
	params []mcp.Raw // of the listen calls
}

func newPipeline(holds bool, secret string, tools ...string) *pipeline {
	w := &pipeline{tools: tools, secret: secret, over: make(chan struct{})}
	w.Pipeline = &Pipeline{Handler: w, Lists: w, Holds: func(context.Context, *mcp.Caller) bool { return holds }}
	return w
}

func (w *pipeline) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	switch c.Method {
	case mcp.MethodToolsList:
		l := &mcp.List{}
		for _, name := range w.tools {
			l.Items = append(l.Items, mcp.Item{Name: name, Raw: mcp.Object("name", mcp.String(name))})
		}
		if c.Caller.Subject == "ann" {
			l.Items = append(l.Items, mcp.Item{Name: w.secret, Raw: mcp.Object("name", mcp.String(w.secret))})
		}
		return &mcp.Reply{List: l}, nil
	case mcp.MethodSkillsList:
		return &mcp.Reply{List: &mcp.List{Items: w.skills}}, nil
	case mcp.MethodListen:
		w.mu.Lock()
		w.params = append(w.params, c.Params)
		w.mu.Unlock()
		granted := mcp.Raw(`{"toolsListChanged":true,"skillsListChanged":true}`)
		if len(w.grants) > 0 {
			granted = granted.With("resourceSubscriptions", mcp.Raw(`["`+strings.Join(w.grants, `","`)+`"]`))
		}
		c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", granted)})
		select {
		case <-w.over:
			return &mcp.Reply{Result: mcp.Raw(`{"over":true}`)}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case mcp.MethodToolsCall:
		select {
		case <-w.over:
			return nil, mcp.UpstreamError(failure.UpstreamClosing, "u", mcp.Executed(c.Name), "closed")
		default:
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		}
	}
	return nil, mcp.ErrMethod(c.Method)
}

func TestListenersAreHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newPipeline(true, "old-secret", "a")
		first.grants = []string{"x:1", "x:2"}
		s := New(first.Pipeline)
		ctx, cancel := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		var mu sync.Mutex
		heard := map[string][]string{}
		for _, who := range []string{"ann", "bob"} {
			clients.Go(func() {
				_, err := s.Handle(ctx, &mcp.Call{
					Method: mcp.MethodListen, Caller: mcp.Caller{Subject: who},
					Params: mcp.Raw(`{"notifications":{"toolsListChanged":true,"skillsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:1","x:2","x:3"]}}`),
					Notify: func(e mcp.Event) {
						mu.Lock()
						defer mu.Unlock()
						heard[who] = append(heard[who], e.Method+" "+string(e.Params))
					},
				})
				if err != context.Canceled {
					t.Errorf("%s: ended with %v", who, err)
				}
			})
		}
		take := func() map[string][]string {
			<-time.After(spread) // the calls move within this time
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got := heard
			heard = map[string][]string{}
			return got
		}
		next := func(old, w *pipeline) *pipeline {
			s.Set(w.Pipeline)
			close(old.over)
			return w
		}
		acked := "notifications/subscriptions/acknowledged " +
			`{"notifications":{"toolsListChanged":true,"skillsListChanged":true,"resourceSubscriptions":["x:1","x:2"]}}`
		if diff := cmp.Diff(map[string][]string{"ann": {acked}, "bob": {acked}}, take()); diff != "" {
			t.Fatalf("at first (-want +got):\n%s", diff)
		}
		changed := mcp.NoteToolsListChanged + " {}"
		now := next(first, newPipeline(true, "old-secret", "a"))
		if diff := cmp.Diff(map[string][]string{}, take()); diff != "" {
			t.Errorf("nothing looks different (-want +got):\n%s", diff)
		}
		second := newPipeline(true, "new-secret", "a")
		second.grants = []string{"x:2"}
		now = next(now, second)
		updated := mcp.NoteResourceUpdated + ` {"uri":"x:2"}`
		if diff := cmp.Diff(map[string][]string{"ann": {changed, updated}, "bob": {updated}}, take()); diff != "" {
			t.Errorf("ann sees another tool (-want +got):\n%s", diff)
		}
		for _, params := range second.params {
			if want := `{"notifications":{"toolsListChanged":true,"skillsListChanged":true,"resourceSubscriptions":["x:1","x:2"]}}`; string(params) != want {
				t.Errorf("asked for %s, want what was acknowledged: %s", params, want)
			}
		}
		now = next(now, newPipeline(true, "new-secret", "a", "b"))
		if diff := cmp.Diff(map[string][]string{"ann": {changed}, "bob": {changed}}, take()); diff != "" {
			t.Errorf("one tool more (-want +got):\n%s", diff)
		}
		third := newPipeline(true, "new-secret", "a", "b")
		third.skills = []mcp.Item{{Name: "s", Raw: mcp.Raw(`{"name":"s"}`)}}
		next(now, third)
		changed = mcp.NoteSkillsListChanged + " {}"
		if diff := cmp.Diff(map[string][]string{"ann": {changed}, "bob": {changed}}, take()); diff != "" {
			t.Errorf("one skill more (-want +got):\n%s", diff)
		}
		cancel()
		clients.Wait()
	})
}

// TestListenersComeBack: a caller who is no longer good on the new Pipeline does not keep an
// old identity.
func TestListenersComeBack(t *testing.T) {
	first := newPipeline(true, "", "a")
	s := New(first.Pipeline)
	ended := make(chan string, 1)
	acked := make(chan struct{}, 1)
	go func() {
		reply, err := s.Handle(t.Context(), &mcp.Call{Method: mcp.MethodListen,
			Notify: func(mcp.Event) { acked <- struct{}{} }})
		ended <- fmt.Sprintf("%s %v", reply.Result, err)
	}()
	<-acked
	s.Set(newPipeline(false, "", "a").Pipeline)
	close(first.over)
	if got := <-ended; got != "{} <nil>" {
		t.Errorf("got %s", got)
	}
}

// TestLastPipelineEnds: when the gateway ends, the call ends as its Pipeline ends it.
func TestLastPipelineEnds(t *testing.T) {
	w := newPipeline(true, "", "a")
	close(w.over)
	reply, err := New(w.Pipeline).Handle(t.Context(), &mcp.Call{Method: mcp.MethodListen, Notify: func(mcp.Event) {}})
	if err != nil || string(reply.Result) != `{"over":true}` {
		t.Errorf("got %v, %v", reply, err)
	}
}

func TestCallsThatCameTooLate(t *testing.T) {
	for executed, again := range map[string]bool{"no": true, "unknown": false} {
		old, now := newPipeline(true, "", "a"), newPipeline(true, "", "a")
		s := New(old.Pipeline)
		old.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			s.Set(now.Pipeline) // while the call is on its way
			return old.Handle(ctx, c)
		})
		close(old.over)
		_, err := s.Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Name: executed})
		if (err == nil) != again {
			t.Errorf("executed %q: got %v", executed, err)
		}
	}
	old, others := newPipeline(true, "", "a"), newPipeline(false, "", "a")
	s := New(old.Pipeline)
	old.Handler = mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		s.Set(others.Pipeline)
		return old.Handle(ctx, c)
	})
	close(old.over)
	if _, err := s.Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Name: "no"}); err == nil {
		t.Error("a call is made again where its caller may not be known any more")
	}
	w := newPipeline(true, "", "a")
	close(w.over)
	if _, err := New(w.Pipeline).Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Name: "no"}); err == nil {
		t.Error("the only pipeline that there is was tried again")
	}
}

// TestSubscribeAtAClosedServer: a resource whose server was closed by a reload, before it could be
// asked, is subscribed at the server that took its place. Other reasons are passed on.
func TestSubscribeAtAClosedServer(t *testing.T) {
	for reason, again := range map[failure.Name]bool{failure.UpstreamClosing: true, failure.UpstreamDown: false} {
		now := newPipeline(true, "", "a")
		now.grants = []string{"x:1"}
		var s *Switch
		s = New(&Pipeline{Handler: mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
			s.Set(now.Pipeline) // while the call is on its way
			c.Notify(mcp.Event{
				Method: mcp.NoteAcknowledged, Params: mcp.Object("notifications", mcp.Raw("{}")),
				Failed: map[string]error{"x:1": mcp.UpstreamError(reason, "u", mcp.ExecutedNo, "closed")},
			})
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		ctx, cancel := context.WithCancel(t.Context())
		acked, ended := make(chan mcp.Event, 2), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.Handle(ctx, &mcp.Call{Method: mcp.MethodListen, Params: mcp.Raw(`{}`),
				Notify: func(e mcp.Event) { acked <- e }})
		}()
		e := <-acked
		cancel()
		<-ended
		honoured, _ := mcp.FilterOf(e.Params)
		if got := len(honoured.URIs) == 1 && e.Failed == nil; got != again {
			t.Errorf("%s: acknowledged %s, failed %v", reason, e.Params, e.Failed)
		}
		if len(acked) > 0 {
			t.Errorf("%s: the client got a second acknowledgement", reason)
		}
	}
}

// TestEventsBeforeTheEnd: what a server told before its listener was replaced reaches the client.
func TestEventsBeforeTheEnd(t *testing.T) {
	begun := make(chan struct{})
	s := New(&Pipeline{Handler: mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		close(begun)
		<-ctx.Done()
		c.Notify(mcp.ResourceUpdated("x:1"))
		return nil, ctx.Err()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	heard := 0
	_, _ = s.Handle(ctx, &mcp.Call{Method: mcp.MethodListen, Params: mcp.Raw(`{}`), Notify: func(mcp.Event) { heard++ }})
	if heard != 1 {
		t.Errorf("heard %d events, want one", heard)
	}
}

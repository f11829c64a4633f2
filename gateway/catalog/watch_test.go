package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// bubble runs a test with its own clock, in a bubble of synctest.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// after lets time pass and waits until everything has settled.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func stateOf(c *Catalog, i int) State { return c.Status()[i].State }

func TestRefresh(t *testing.T) {
	bubble(t, "a change is fetched, many at once", func(t *testing.T) {
		s := newServer("crm").tools("a")
		c := start(t, Source{Upstream: s})
		before := s.called(mcp.MethodToolsList)
		s.tools("a", "b")
		for range 100 {
			s.says(mcp.NoteToolsListChanged, `{}`)
		}
		after(coalesce)
		wantNames(t, c, mcp.MethodToolsList, "crm__a", "crm__b")
		if n := s.called(mcp.MethodToolsList) - before; n != 1 {
			t.Errorf("fetched %d times", n)
		}
		if n := s.called(mcp.MethodPromptsList); n != 1 {
			t.Errorf("prompts, which did not change, were fetched %d times", n)
		}
	})
	bubble(t, "resources and templates change together", func(t *testing.T) {
		s := newServer("crm")
		c := start(t, Source{Upstream: s})
		s.has(mcp.MethodResourcesList, resource("a:b")).has(mcp.MethodResourceTemplatesList, template("a:{b}"))
		s.says(mcp.NoteResourcesListChanged, `{}`)
		after(coalesce)
		wantNames(t, c, mcp.MethodResourcesList, "crm+a:b")
		wantNames(t, c, mcp.MethodResourceTemplatesList, "crm+a:{b}")
	})
	bubble(t, "a change told during a call is for the watch", func(t *testing.T) {
		s := newServer("crm").tools("a")
		c := start(t, Source{Upstream: s})
		s.on(mcp.MethodToolsCall, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			s.tools("b")
			call.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		})
		do(t, c, call(mcp.MethodToolsCall, "crm__a"))
		after(coalesce)
		wantNames(t, c, mcp.MethodToolsList, "crm__b")
	})
	bubble(t, "without notifications every five minutes", func(t *testing.T) {
		s := newServer("crm").tools("a")
		s.caps = `{"tools":{}}`
		c := start(t, Source{Upstream: s})
		s.tools("b")
		after(refreshAfter - refreshAfter/5)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		after(refreshAfter / 5)
		wantNames(t, c, mcp.MethodToolsList, "crm__b")
		if n := s.called(mcp.MethodListen); n != 0 {
			t.Errorf("listened %d times to an upstream that tells nothing", n)
		}
	})
	bubble(t, "when it expires", func(t *testing.T) {
		s := newServer("crm")
		fetches := 0
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			fetches++
			name := fmt.Sprint("a", fetches)
			return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Name: name, Raw: mcp.Raw(tool(name))}},
				Expires: time.Now().Add(time.Minute)}}, nil
		})
		c := start(t, Source{Upstream: s})
		if got := do(t, c, call(mcp.MethodToolsList, "")).List.Expires; got.Before(time.Now().Add(59 * time.Second)) {
			t.Errorf("expires %v", got)
		}
		after(time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a2")
	})
	bubble(t, "a short ttl is no polling interval", func(t *testing.T) {
		s := newServer("crm")
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{List: &mcp.List{Expires: time.Now().Add(time.Second)}}, nil
		})
		start(t, Source{Upstream: s})
		after(5*time.Minute - time.Second)
		if n := s.called(mcp.MethodToolsList); n > 10 {
			t.Errorf("%d fetches in five minutes", n)
		}
	})
	bubble(t, "a list that is out of date when it comes is no list without a time", func(t *testing.T) {
		s := newServer("crm")
		s.caps = `{"tools":{}}`
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{List: &mcp.List{Expires: time.Now()}}, nil
		})
		start(t, Source{Upstream: s})
		after(5*time.Minute - time.Second)
		if n := s.called(mcp.MethodToolsList); n < 9 || n > 10 {
			t.Errorf("%d fetches in five minutes", n)
		}
	})
	bubble(t, "a server that tells of a change whenever it is asked", func(t *testing.T) {
		s := newServer("crm")
		var names atomic.Value
		names.Store([]string{"a"})
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			s.says(mcp.NoteToolsListChanged, `{}`)
			list := &mcp.List{}
			for _, name := range names.Load().([]string) {
				list.Items = append(list.Items, mcp.Item{Name: name, Raw: mcp.Raw(tool(name))})
			}
			return &mcp.Reply{List: list}, nil
		})
		c := start(t, Source{Upstream: s})
		after(10 * time.Minute)
		before := s.called(mcp.MethodToolsList)
		after(10 * time.Minute)
		if n := s.called(mcp.MethodToolsList) - before; n < 5 || n > 25 {
			t.Errorf("%d fetches in ten minutes", n)
		}
		names.Store([]string{"a", "b"})
		after(2 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a", "crm__b")
		s.on(mcp.MethodToolsList, nil).tools("c") // it stops that
		after(5 * time.Minute)
		s.tools("d").says(mcp.NoteToolsListChanged, `{}`)
		after(coalesce)
		wantNames(t, c, mcp.MethodToolsList, "crm__d")
	})
	bubble(t, "calls do not change lists", func(t *testing.T) {
		c := start(t, Source{Upstream: newServer("crm").tools("a")})
		first := do(t, c, call(mcp.MethodToolsList, "")).List
		do(t, c, call(mcp.MethodToolsCall, "crm__a"))
		refused(t, c, call(mcp.MethodToolsCall, "crm__b"), mcp.CodeInvalidParams)
		if again := do(t, c, call(mcp.MethodToolsList, "")).List; again != first {
			t.Error("another List")
		}
	})
	bubble(t, "the same List while the content is the same", func(t *testing.T) {
		s, other := newServer("crm").tools("a"), newServer("doc").tools("a")
		c := start(t, sourcesOf([]*server{s, other})...)
		first := do(t, c, call(mcp.MethodToolsList, "")).List
		s.says(mcp.NoteToolsListChanged, `{}`)
		other.has(mcp.MethodPromptsList, `{"name":"p"}`).says(mcp.NotePromptsListChanged, `{}`)
		after(time.Second)
		if again := do(t, c, call(mcp.MethodToolsList, "")).List; again != first {
			t.Error("another List")
		}
		wantNames(t, c, mcp.MethodPromptsList, "doc__p")
	})
}

func TestFailingUpstreams(t *testing.T) {
	bubble(t, "one that hangs delays nobody", func(t *testing.T) {
		hung, ok := newServer("hung"), newServer("ok").tools("a")
		hung.on(mcp.MethodDiscover, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c := newCatalog(t, Config{}, sourcesOf([]*server{hung, ok})...)
		running(t, c)
		synctest.Wait()
		if got := c.Status(); got[0].State != StateConnecting || got[1].State != StateUp || got[1].Tools != 1 {
			t.Errorf("got %+v", got)
		}
		after(guard + time.Second)
		if got := c.Status()[0]; got.State != StateDown || got.LastError == "" {
			t.Errorf("got %+v", got)
		}
	})
	bubble(t, "the last good list is kept for ten minutes, then dropped and announced", func(t *testing.T) {
		s := newServer("crm").tools("a")
		c := start(t, Source{Upstream: s})
		events := listening(t, c, `{"toolsListChanged":true}`)
		s.unreachable(true)
		s.open(false)[0].end <- errors.New("gone")
		after(keepLists - time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if got := stateOf(c, 0); got != StateFailing {
			t.Errorf("state %s", got)
		}
		refused(t, c, call(mcp.MethodToolsCall, "crm__a"), mcp.CodeUpstreamUnreachable) // its own answer
		if got := events(); len(got) != 1 {
			t.Errorf("announced %q", got)
		}
		after(2 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList)
		if got := stateOf(c, 0); got != StateDown {
			t.Errorf("state %s", got)
		}
		if got := events(); len(got) != 2 || got[1] != mcp.NoteToolsListChanged+" {}" {
			t.Errorf("announced %q", got)
		}
		e := refused(t, c, call(mcp.MethodToolsCall, "crm__a"), mcp.CodeUpstreamUnreachable)
		if !strings.Contains(e.Message, "has no list") {
			t.Errorf("got %q", e.Message)
		}
		s.unreachable(false)
		after(2 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if got := events(); len(got) != 3 || stateOf(c, 0) != StateUp {
			t.Errorf("announced %q, state %s", got, stateOf(c, 0))
		}
	})
	bubble(t, "a call that needs a list which is not there asks for it, once a second", func(t *testing.T) {
		s := newServer("crm").tools("a").has(mcp.MethodPromptsList, `{"name":"p"}`)
		s.unreachable(true)
		c := start(t, Source{Upstream: s})
		after(10*time.Minute + 100*time.Millisecond)
		before := s.called(mcp.MethodDiscover)
		for range 30 { // three seconds
			refused(t, c, call(mcp.MethodToolsCall, "crm__a"), mcp.CodeUpstreamUnreachable)
			after(100 * time.Millisecond)
		}
		if n := s.called(mcp.MethodDiscover) - before; n != 3 {
			t.Errorf("asked %d times in three seconds", n)
		}
		s.unreachable(false)
		wantResult(t, do(t, c, call(mcp.MethodToolsCall, "crm__a")), `{"from":"crm","name":"a"}`)
		refused(t, c, call(mcp.MethodToolsCall, "crm__b"), mcp.CodeInvalidParams)
		if got := stateOf(c, 0); got != StateUp {
			t.Errorf("state %s", got)
		}
	})
	bubble(t, "a server that hangs does not hold up the call for long", func(t *testing.T) {
		s := newServer("crm").tools("a")
		s.unreachable(true)
		c := start(t, Source{Upstream: s})
		after(10 * time.Minute)
		s.on(mcp.MethodDiscover, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		began := time.Now()
		refused(t, c, call(mcp.MethodToolsCall, "crm__a"), mcp.CodeUpstreamUnreachable)
		if waited := time.Since(began); waited > userWait {
			t.Errorf("waited %s", waited)
		}
	})
	// For a server with sessions, discover is answered from what it said when they began.
	bubble(t, "an upstream that is down though discover is answered", func(t *testing.T) {
		s := newServer("crm").tools("a")
		c := start(t, Source{Upstream: s})
		s.unreachable(true)
		s.on(mcp.MethodDiscover, nil)
		s.open(false)[0].end <- errors.New("gone")
		after(time.Minute)
		since := c.Status()[0].Since
		after(keepLists - 2*time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if got := c.Status()[0]; got.State != StateFailing || got.Since != since {
			t.Errorf("got %+v, want it to fail since %s", got, since)
		}
		after(3 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList)
		if got := stateOf(c, 0); got != StateDown {
			t.Errorf("state %s", got)
		}
		s.unreachable(false)
		after(2 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if got := c.Status()[0]; got.State != StateUp || got.LastError != "" {
			t.Errorf("got %+v", got)
		}
	})
	bubble(t, "attempts become rare", func(t *testing.T) {
		s := newServer("crm")
		s.unreachable(true)
		start(t, Source{Upstream: s})
		after(time.Hour)
		if n := s.called(mcp.MethodDiscover); n < 40 || n > 130 {
			t.Errorf("%d attempts in an hour", n)
		}
	})
	bubble(t, "one list fails, the others are served and it is tried again", func(t *testing.T) {
		s := newServer("crm").tools("a").fails(mcp.MethodPromptsList, mcp.Errorf(failure.Internal, "sorry"))
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if v := c.Status()[0]; v.State != StateFailing || !strings.Contains(v.LastError, "prompts/list: sorry") {
			t.Errorf("got %+v", v)
		}
		s.on(mcp.MethodPromptsList, nil).has(mcp.MethodPromptsList, `{"name":"p"}`)
		after(retryList)
		wantNames(t, c, mcp.MethodPromptsList, "crm__p")
		s.fails(mcp.MethodPromptsList, mcp.Errorf(failure.Internal, "sorry"))
		s.says(mcp.NotePromptsListChanged, `{}`)
		after(keepLists - time.Minute)
		wantNames(t, c, mcp.MethodPromptsList, "crm__p")
		after(3 * time.Minute)
		wantNames(t, c, mcp.MethodPromptsList)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		if n := s.called(mcp.MethodDiscover); n != 1 {
			t.Errorf("connected %d times", n)
		}
	})
	bubble(t, "a list that cannot be reached is a lost upstream: it is connected anew", func(t *testing.T) {
		s := newServer("crm").tools("a")
		s.caps = `{"tools":{}}`
		c := start(t, Source{Upstream: s})
		s.fails(mcp.MethodToolsList, mcp.UpstreamError(failure.UpstreamTimeout, "crm", mcp.ExecutedUnknown,
			"upstream crm did not answer in time"))
		after(refreshAfter)
		if v := c.Status()[0]; v.State != StateFailing || !strings.Contains(v.LastError, "did not answer in time") {
			t.Errorf("got %+v", v)
		}
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		s.offers(`{"tools":{},"prompts":{}}`) // it returns with other capabilities
		s.on(mcp.MethodToolsList, nil).tools("b").has(mcp.MethodPromptsList, `{"name":"p"}`)
		after(2 * time.Minute)
		wantNames(t, c, mcp.MethodToolsList, "crm__b")
		wantNames(t, c, mcp.MethodPromptsList, "crm__p")
	})
	bubble(t, "rubbish in place of a list", func(t *testing.T) {
		s := newServer("crm").on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		})
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList)
		if v := c.Status()[0]; !strings.Contains(v.LastError, "answered tools/list without a list") {
			t.Errorf("got %+v", v)
		}
	})
	bubble(t, "rubbish in place of capabilities, and no reply at all", func(t *testing.T) {
		bad := newServer("bad").on(mcp.MethodDiscover,
			func(context.Context, *mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{}, nil })
		none := newServer("none").on(mcp.MethodDiscover,
			func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, nil })
		c := start(t, sourcesOf([]*server{bad, none})...)
		for _, v := range c.Status() {
			if v.State != StateDown || v.LastError == "" {
				t.Errorf("got %+v", v)
			}
		}
	})
}

func TestLostWatch(t *testing.T) {
	for name, end := range map[string]error{"lost": errors.New("gone"), "ended in good order": nil} {
		bubble(t, name, func(t *testing.T) {
			s := newServer("crm").tools("a").has(mcp.MethodPromptsList, `{"name":"p"}`)
			c := start(t, Source{Upstream: s})
			events := listening(t, c, `{"toolsListChanged":true,"promptsListChanged":true}`)
			s.tools("a", "missed")
			s.open(false)[0].end <- end
			after(5 * time.Second)
			wantNames(t, c, mcp.MethodToolsList, "crm__a", "crm__missed")
			if n := s.called(mcp.MethodPromptsList); n != 2 {
				t.Errorf("prompts were fetched %d times", n)
			}
			if got := events(); len(got) != 2 || got[1] != mcp.NoteToolsListChanged+" {}" {
				t.Errorf("told %q: want tools alone, whose content differs", got)
			}
			if got := stateOf(c, 0); got != StateUp {
				t.Errorf("state %s", got)
			}
			s.tools("b") // it listens again
			s.says(mcp.NoteToolsListChanged, `{}`)
			after(coalesce)
			wantNames(t, c, mcp.MethodToolsList, "crm__b")
		})
	}
	bubble(t, "an upstream that refuses to be listened to is asked from time to time", func(t *testing.T) {
		s := newServer("crm").tools("a").fails(mcp.MethodListen, mcp.ErrMethod(mcp.MethodListen))
		c := start(t, Source{Upstream: s})
		s.tools("b")
		after(refreshAfter)
		wantNames(t, c, mcp.MethodToolsList, "crm__b")
		if n := s.called(mcp.MethodListen); n != 1 {
			t.Errorf("it was asked to tell %d times", n)
		}
	})
	bubble(t, "what changed before a late acknowledgement is not missed", func(t *testing.T) {
		s := newServer("crm").tools("a")
		s.on(mcp.MethodListen, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			waitFor(ctx, 3*time.Second)
			s.tools("b")
			call.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: mcp.Raw(`{"notifications":{}}`)})
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		after(3 * time.Second)
		wantNames(t, c, mcp.MethodToolsList, "crm__b")
	})
}

func TestUpstreamCursors(t *testing.T) {
	// pages answers tools/list with one tool on each page, followed by these cursors.
	pages := func(s *server, cursors ...string) *server {
		at := map[string]int{}
		for i, cursor := range cursors {
			at[cursor] = i + 1
		}
		return s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			i := 0
			if cursor, ok := call.Params.Member("cursor"); ok {
				i = at[cursor.Text()]
			}
			name := fmt.Sprintf("t%02d", i)
			list := &mcp.List{Items: []mcp.Item{{Name: name, Raw: mcp.Raw(tool(name))}}}
			if i < len(cursors) {
				list.Next = &cursors[i]
			}
			return &mcp.Reply{List: list}, nil
		})
	}
	numbered := func(n int) (cursors []string) {
		for i := range n {
			cursors = append(cursors, fmt.Sprint(i))
		}
		return cursors
	}
	cut := func(t *testing.T, c *Catalog, want string) {
		t.Helper()
		if w := c.Status()[0].Withheld; len(w) != 1 || !strings.Contains(w[0].Reason, want) {
			t.Errorf("withheld %v, want %q", w, want)
		}
	}
	bubble(t, "the empty cursor is followed", func(t *testing.T) {
		c := start(t, Source{Upstream: pages(newServer("crm"), "x", "", "y")})
		wantNames(t, c, mcp.MethodToolsList, "crm__t00", "crm__t01", "crm__t02", "crm__t03")
	})
	bubble(t, "a repeated cursor stops", func(t *testing.T) {
		s := newServer("crm")
		same := "x"
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Name: "a", Raw: mcp.Raw(tool("a"))}}, Next: &same}}, nil
		})
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
		cut(t, c, "came twice")
	})
	bubble(t, "a list of many pages", func(t *testing.T) {
		c := start(t, Source{Upstream: pages(newServer("crm"), numbered(1200)...)})
		if view := c.Status()[0]; view.Tools != 1201 || len(view.Withheld) != 0 {
			t.Errorf("got %+v", view)
		}
	})
	bubble(t, "an endless list of empty pages", func(t *testing.T) {
		s, n := newServer("crm"), 0
		s.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			n++
			next := fmt.Sprint(n)
			return &mcp.Reply{List: &mcp.List{Next: &next}}, nil
		})
		c := start(t, Source{Upstream: s})
		cut(t, c, "50 empty pages")
		if n != maxEmpty+1 {
			t.Errorf("%d pages were asked for", n)
		}
	})
	bubble(t, "more items than a list may have are counted", func(t *testing.T) {
		for _, tt := range []struct {
			most, has, tools, behind int
			server                   *server
			reason                   string
		}{
			{0, 25_000, 20_000, 5000, newServer("crm").tools(toolNames(25_000)...),
				"more than 20000 items (limits.items of the upstream): 5000 are left out"},
			{10, 16, 10, 6, pages(newServer("crm"), numbered(15)...),
				"more than 10 items (limits.items of the upstream): 6 are left out"},
			{10, 61, 10, 10, pages(newServer("crm"), numbered(60)...), "10 are left out, and possibly more"},
		} {
			var turned []UpstreamView
			c := newCatalog(t, Config{}, Source{Upstream: tt.server, Items: tt.most})
			c.turned = func(view UpstreamView) { turned = append(turned, view) }
			running(t, c)
			synctest.Wait()
			if view := c.Status()[0]; view.Tools != tt.tools || view.State != StateUp || len(view.Withheld) != 1 ||
				view.Withheld[0].Behind != tt.behind {
				t.Errorf("got %+v", view)
			}
			cut(t, c, tt.reason)
			if last := turned[len(turned)-1]; len(turned) != 2 || len(last.Withheld) != 1 {
				t.Errorf("told of %+v", turned)
			}
		}
	})
	bubble(t, "a list of more bytes than there may be", func(t *testing.T) {
		items := make([]mcp.Item, 2200)
		for i := range items {
			name := fmt.Sprintf("t%04d", i)
			items[i] = mcp.Item{Name: name, Raw: mcp.Raw(`{"name":"` + name +
				`","inputSchema":{"type":"object"},"description":"` + strings.Repeat("x", maxItem-100) + `"}`)}
		}
		s := newServer("crm")
		s.items[mcp.MethodToolsList] = items
		c := start(t, Source{Upstream: s})
		if n := c.Status()[0].Tools; n < 2048 || n > 2060 {
			t.Errorf("%d tools", n)
		}
		cut(t, c, "more than 128 MiB")
	})
	bubble(t, "64 KiB a definition at most", func(t *testing.T) {
		s := newServer("crm").has(mcp.MethodToolsList, tool("ok"),
			`{"name":"big","description":"`+strings.Repeat("x", maxItem)+`"}`)
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList, "crm__ok")
		cut(t, c, "more than 65536")
	})
	bubble(t, "a cursor that is refused: from the start, once", func(t *testing.T) {
		s, n := newServer("crm"), 0
		next := "x"
		s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if n++; n == 2 {
				return nil, mcp.Errorf(failure.InvalidParams, "cursor expired")
			}
			name := fmt.Sprint("t", n)
			list := &mcp.List{Items: []mcp.Item{{Name: name, Raw: mcp.Raw(tool(name))}}}
			if call.Params == nil {
				list.Next = &next
			}
			return &mcp.Reply{List: list}, nil
		})
		c := start(t, Source{Upstream: s})
		wantNames(t, c, mcp.MethodToolsList, "crm__t3", "crm__t4")
	})
	bubble(t, "a page that fails keeps the last good list", func(t *testing.T) {
		s := newServer("crm").tools("a")
		c := start(t, Source{Upstream: s})
		next := "x"
		s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Params != nil {
				return nil, mcp.Errorf(failure.Internal, "sorry")
			}
			return &mcp.Reply{List: &mcp.List{Next: &next}}, nil
		})
		s.says(mcp.NoteToolsListChanged, `{}`)
		after(coalesce)
		wantNames(t, c, mcp.MethodToolsList, "crm__a")
	})
}

func TestNamesDoNotDependOnOrder(t *testing.T) {
	long := strings.Repeat("n", 80)
	names := func(servers ...*server) map[string]bool {
		c := start(t, sourcesOf(servers)...)
		set := make(map[string]bool)
		for _, name := range listed(t, c, mcp.MethodToolsList) {
			set[name] = true
		}
		return set
	}
	one := names(newServer("a").tools("x", long, "x.y"), newServer("b").tools("x", long))
	two := names(newServer("b").tools(long, "x"), newServer("a").tools("x.y", "x", long), newServer("c"))
	if len(one) != 5 || fmt.Sprint(one) != fmt.Sprint(two) {
		t.Errorf("%v\n%v", one, two)
	}
}

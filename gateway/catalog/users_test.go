package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func perUser(s *server) Source { return Source{Upstream: s, PerUser: true} }

func someone(name string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: name, ClientID: "app", Token: mcp.Secret("token-of-" + name)})
}

// by makes a call belong to a user.
func by(user string, c *mcp.Call) *mcp.Call {
	c.Caller, c.Session = someone(user), someone(user).User()+":1"
	return c
}

// toolsOf makes an upstream list a tool with the name of the caller.
func toolsOf(s *server) *server {
	return s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
		name := "of-" + call.Caller.Subject
		return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Name: name, Raw: mcp.Raw(tool(name))}}}}, nil
	})
}

func wantToolsOf(t testing.TB, c *Catalog, user string, want ...string) {
	t.Helper()
	var got []string
	for _, item := range do(t, c, by(user, call(mcp.MethodToolsList, ""))).List.Items {
		got = append(got, item.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s sees %q, want %q", user, got, want)
	}
}

func TestPerUserLists(t *testing.T) {
	bubble(t, "each user sees their own beside what is shared", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, Source{Upstream: newServer("doc").tools("read")}, perUser(crm),
			Source{Upstream: newServer("zoo").tools("feed")})
		after(time.Hour)
		if n := len(crm.calls); n != 0 {
			t.Fatalf("%d calls before anybody called", n)
		}
		wantToolsOf(t, c, "ann", "doc__read", "crm__of-ann", "zoo__feed")
		wantToolsOf(t, c, "bob", "doc__read", "crm__of-bob", "zoo__feed")
		for _, in := range crm.calls {
			if in.Caller.Token == "" || in.Session != "" || in.Caps != nil {
				t.Errorf("%s was asked as %+v in session %q", in.Method, in.Caller, in.Session)
			}
		}
		list := do(t, c, by("ann", call(mcp.MethodToolsList, ""))).List
		if !list.Private {
			t.Error("what differs by user is not private")
		}
		if again := do(t, c, by("ann", call(mcp.MethodToolsList, ""))).List; again != list {
			t.Error("another List, though nothing changed")
		}
		if n := crm.called(mcp.MethodToolsList); n != 2 {
			t.Errorf("the upstream was asked %d times for two users", n)
		}
		if prompts := do(t, c, by("ann", call(mcp.MethodPromptsList, ""))).List; !prompts.Private {
			t.Error("a list without items of a per-user upstream is not private")
		}
	})
	bubble(t, "two clients of a user are asked for apart", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__of-ann")
		other := by("ann", call(mcp.MethodToolsList, ""))
		other.Caller.ClientID = "another"
		do(t, c, other)
		if n := crm.called(mcp.MethodToolsList); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
	bubble(t, "a cursor is its user's", func(t *testing.T) {
		c := newCatalog(t, Config{}, perUser(newServer("crm").tools(toolNames(10)...)))
		c.plan.pageSize = 4
		running(t, c)
		if got := walk(t, c, "ann"); len(got) != 10 {
			t.Errorf("got %q", got)
		}
		cursor := *do(t, c, listCall("ann", "")).List.Next
		refused(t, c, listCall("bob", cursor), mcp.CodeInvalidParams)
		do(t, c, listCall("ann", cursor))
	})
	bubble(t, "discover tells what the user's own can", func(t *testing.T) {
		crm := newServer("crm").on(mcp.MethodDiscover, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Caller.Subject == "ann" {
				return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"prompts":{}},"instructions":"Hello ann."}`)}, nil
			}
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, nil
		})
		c := start(t, perUser(crm))
		if got := do(t, c, by("ann", call(mcp.MethodDiscover, ""))).Result; !strings.Contains(string(got), "Hello ann.") ||
			strings.Contains(string(got), `"tools"`) {
			t.Errorf("ann is told %s", got)
		}
		wantResult(t, do(t, c, by("bob", call(mcp.MethodDiscover, ""))), `{"capabilities":{"tools":{"listChanged":true}}}`)
	})
	bubble(t, "what the caller may not know of is not asked", func(t *testing.T) {
		crm, doc := toolsOf(newServer("crm")), toolsOf(newServer("doc"))
		c := start(t, perUser(crm), perUser(doc))
		do(t, c, seeing(by("ann", call(mcp.MethodToolsList, "")), "doc"))
		if len(crm.calls) != 0 || doc.called(mcp.MethodToolsList) != 1 {
			t.Errorf("%d and %d calls", len(crm.calls), len(doc.calls))
		}
	})
	bubble(t, "names that meet for one user are withheld from them alone", func(t *testing.T) {
		own := toolsOf(newServer("own"))
		none := ""
		c := start(t, plain(newServer("doc").tools("of-ann", "read")), Source{Upstream: own, Prefix: &none, PerUser: true})
		wantToolsOf(t, c, "ann", "read")
		wantToolsOf(t, c, "bob", "of-ann", "read", "of-bob")
		refused(t, c, by("ann", call(mcp.MethodToolsCall, "of-ann")), mcp.CodeInvalidParams)
		do(t, c, by("bob", call(mcp.MethodToolsCall, "of-ann")))
	})
}

func TestPerUserFreshness(t *testing.T) {
	asked := func(t *testing.T, s *server, want int) {
		t.Helper()
		if n := s.called(mcp.MethodToolsList); n != want {
			t.Errorf("asked %d times, want %d", n, want)
		}
	}
	bubble(t, "asked again when it is old, by whoever calls", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__of-ann")
		after(refreshAfter / 2)
		wantToolsOf(t, c, "ann", "crm__of-ann")
		asked(t, crm, 1)
		after(refreshAfter / 2)
		asked(t, crm, 1) // nobody has called
		wantToolsOf(t, c, "ann", "crm__of-ann")
		asked(t, crm, 2)
	})
	bubble(t, "asked again when it changed in any session of the user", func(t *testing.T) {
		crm := toolsOf(newServer("crm")).on(mcp.MethodToolsCall, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			call.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
		})
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__of-ann")
		wantToolsOf(t, c, "bob", "crm__of-bob")
		other := by("ann", call(mcp.MethodToolsCall, "crm__of-ann"))
		other.Session, other.Caller.ClientID = "ann:2", "another" // with a list of its own
		do(t, c, other)
		asked(t, crm, 3)
		wantToolsOf(t, c, "bob", "crm__of-bob")
		asked(t, crm, 3)
		wantToolsOf(t, c, "ann", "crm__of-ann")
		asked(t, crm, 4)
	})
	bubble(t, "asked again when the user has signed in there", func(t *testing.T) {
		crm, signedIn := newServer("crm").tools("a"), false
		crm.on(mcp.MethodDiscover, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if !signedIn {
				return nil, mcp.UpstreamError(failure.SignInNeeded, "crm", mcp.ExecutedNo, "sign in")
			}
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, nil
		})
		source := perUser(crm)
		source.SignInAt = "https://gw.example/account"
		c := start(t, source)
		told := func(want bool) {
			t.Helper()
			if reply := do(t, c, by("ann", call(mcp.MethodDiscover, ""))); strings.Contains(string(reply.Result),
				source.SignInAt) != want {
				t.Errorf("told where to sign in: %s, want %t", reply.Result, want)
			}
		}
		ann, bob := listenAs(t, c, "ann"), listenAs(t, c, "bob")
		wantToolsOf(t, c, "ann")
		told(true)
		signedIn = true
		wantToolsOf(t, c, "ann") // not yet: it has failed a moment ago
		who := by("ann", call(mcp.MethodToolsList, "")).Caller
		c.SignedIn("crm", &who)
		c.SignedIn("another", &who)
		after(time.Second)
		ann.want(t, ack(`{"toolsListChanged":true}`), toolsChanged)
		bob.want(t, ack(`{"toolsListChanged":true}`))
		wantToolsOf(t, c, "ann", "crm__a")
		told(false)
	})
	bubble(t, "a change while it is asked is not lost", func(t *testing.T) {
		crm := newServer("crm").tools("a")
		crm.on(mcp.MethodPromptsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			crm.tools("b")
			call.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			return &mcp.Reply{List: &mcp.List{}}, nil
		})
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__a")
		wantToolsOf(t, c, "ann", "crm__b")
	})
	bubble(t, "the lists of who does not call are dropped", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__of-ann")
		after(userIdle + userIdle/5)
		if n := c.users.all.Len(); n != 0 {
			t.Errorf("%d are kept", n)
		}
	})
	bubble(t, "and there is a bound", func(t *testing.T) {
		c := start(t, perUser(newServer("crm")))
		for i := range maxUsers + 10 {
			do(t, c, by(fmt.Sprint(i), call(mcp.MethodToolsList, "")))
		}
		if n := c.users.all.Len(); n != maxUsers {
			t.Errorf("%d are kept", n)
		}
	})
	bubble(t, "the shared part is followed", func(t *testing.T) {
		doc := newServer("doc").tools("a")
		c := start(t, Source{Upstream: doc}, perUser(toolsOf(newServer("crm"))))
		wantToolsOf(t, c, "ann", "doc__a", "crm__of-ann")
		doc.tools("b").says(mcp.NoteToolsListChanged, `{}`)
		after(time.Second)
		wantToolsOf(t, c, "ann", "doc__b", "crm__of-ann")
	})
}

func TestPerUserFailures(t *testing.T) {
	unreachable := mcp.UpstreamError(failure.UpstreamLogin, "crm", mcp.ExecutedNo, "crm does not take ann's credential")
	// failsFor makes a method fail for one user while the flag is set.
	failsFor := func(s *server, method, user string) *atomic.Bool {
		var failing atomic.Bool
		failing.Store(true)
		s.on(method, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if failing.Load() && call.Caller.Subject == user {
				return nil, unreachable
			}
			if method == mcp.MethodDiscover {
				return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, nil
			}
			return &mcp.Reply{List: &mcp.List{Items: []mcp.Item{{Name: "a", Raw: mcp.Raw(tool("a"))}}}}, nil
		})
		return &failing
	}
	bubble(t, "one user's failure is nobody else's", func(t *testing.T) {
		crm := newServer("crm").tools("a")
		failing := failsFor(crm, mcp.MethodDiscover, "ann")
		c := start(t, Source{Upstream: newServer("doc").tools("read")}, perUser(crm))
		wantToolsOf(t, c, "ann", "doc__read")
		wantToolsOf(t, c, "bob", "doc__read", "crm__a")
		for range 5 {
			wantToolsOf(t, c, "ann", "doc__read")
		}
		if n := crm.called(mcp.MethodDiscover); n != 2 {
			t.Errorf("asked %d times", n)
		}
		failing.Store(false)
		after(retryUser)
		wantToolsOf(t, c, "ann", "doc__read", "crm__a")
	})
	for _, method := range []string{mcp.MethodDiscover, mcp.MethodToolsList} {
		bubble(t, "the last good list is served for ten minutes when it fails: "+method, func(t *testing.T) {
			crm := newServer("crm").tools("a")
			crm.caps = `{"tools":{}}`
			failing := failsFor(crm, method, "ann")
			failing.Store(false)
			c := start(t, perUser(crm))
			wantToolsOf(t, c, "ann", "crm__a")
			failing.Store(true)
			after(refreshAfter)
			for range 10 {
				wantToolsOf(t, c, "ann", "crm__a")
				after(time.Minute)
			}
			after(time.Minute)
			wantToolsOf(t, c, "ann")
		})
	}
	bubble(t, "a user who has signed out sees nothing of the upstream", func(t *testing.T) {
		crm := newServer("crm").tools("a")
		crm.caps = `{"tools":{}}`
		c := start(t, perUser(crm))
		wantToolsOf(t, c, "ann", "crm__a")
		crm.on(mcp.MethodToolsList, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
			return nil, mcp.UpstreamError(failure.SignInNeeded, "crm", mcp.ExecutedNo, "crm needs you to sign in there")
		})
		ann := someone("ann")
		c.SignedIn("crm", &ann)
		wantToolsOf(t, c, "ann")
	})
	bubble(t, "one user's slow upstream delays that user a little, once, and nobody else", func(t *testing.T) {
		crm := newServer("crm").tools("a")
		answer := make(chan struct{})
		crm.on(mcp.MethodDiscover, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Caller.Subject == "ann" {
				select {
				case <-answer:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, nil
		})
		c := start(t, Source{Upstream: newServer("doc").tools("read")}, perUser(crm))
		annHears, bobHears := listenAs(t, c, "ann"), listenAs(t, c, "bob")
		began := time.Now()
		wantToolsOf(t, c, "bob", "doc__read", "crm__a")
		if took := time.Since(began); took != 0 {
			t.Errorf("bob waited %v", took)
		}
		wantToolsOf(t, c, "ann", "doc__read")
		wantToolsOf(t, c, "ann", "doc__read")
		if took := time.Since(began); took > userWait {
			t.Errorf("ann waited %v", took)
		}
		if list := do(t, c, by("ann", call(mcp.MethodToolsList, ""))).List; !list.Expires.IsZero() {
			t.Errorf("an incomplete list is good until %v", list.Expires)
		}
		close(answer)
		after(time.Second)
		annHears.want(t, ack(`{"toolsListChanged":true}`), toolsChanged)
		bobHears.want(t, ack(`{"toolsListChanged":true}`))
		wantToolsOf(t, c, "ann", "doc__read", "crm__a")
	})
	bubble(t, "an upstream that hangs is given up, and rounds end with the catalog", func(t *testing.T) {
		crm := newServer("crm").on(mcp.MethodDiscover, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c := newCatalog(t, Config{}, perUser(crm))
		stop := running(t, c)
		wantToolsOf(t, c, "ann")
		after(roundTime + retryUser)
		wantToolsOf(t, c, "ann")
		if n := crm.called(mcp.MethodDiscover); n != 2 {
			t.Errorf("asked %d times", n)
		}
		stop()
		wantToolsOf(t, c, "bob")
		if n := crm.called(mcp.MethodDiscover); n != 2 {
			t.Errorf("asked %d times after the end", n)
		}
	})
	bubble(t, "a client that leaves is not kept, and what it began goes on", func(t *testing.T) {
		crm := newServer("crm").tools("a").on(mcp.MethodDiscover, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			waitFor(ctx, time.Second)
			return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}}}`)}, ctx.Err()
		})
		c := start(t, perUser(crm))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := c.Handle(ctx, by("ann", call(mcp.MethodToolsList, ""))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		wantToolsOf(t, c, "ann", "crm__a")
		if n := crm.called(mcp.MethodDiscover); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// listenAs listens for changes of tools as a user, who sees only the upstream doc until the
// user has asked for the list.
func listenAs(t *testing.T, c *Catalog, user string) *client {
	cl := listenBy(t, c, by(user, call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true}}`)))
	after(2 * userWait)
	return cl
}

func TestPerUserCalls(t *testing.T) {
	crmTool := func(name string) mcp.Target {
		return mcp.Target{Kind: mcp.KindTools, Upstream: "crm", Name: name}
	}
	resolve := func(t *testing.T, c *Catalog, user, public string) (mcp.Target, bool) {
		return resolve(t.Context(), c, by(user, &mcp.Call{}), mcp.KindTools, public)
	}
	bubble(t, "by name, without a list before", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		in := by("ann", call(mcp.MethodToolsCall, "crm__of-ann"))
		var ok bool
		if in.Target, ok = resolve(t, c, "ann", in.Name); !ok || in.Target != crmTool("of-ann") {
			t.Fatalf("resolved to %+v", in.Target)
		}
		if len(crm.calls) != 0 {
			t.Fatal("the upstream was asked before policy has decided")
		}
		wantResult(t, do(t, c, in), `{"from":"crm","name":"of-ann"}`)
		if got := crm.last(t, mcp.MethodToolsCall); got.Session != in.Session || got.Caller.Subject != "ann" {
			t.Errorf("called as %+v", got)
		}
	})
	bubble(t, "a name that only the list can tell", func(t *testing.T) {
		long := strings.Repeat("long", 20)
		crm := newServer("crm").tools(long, "a.b")
		c := start(t, perUser(crm))
		public, err := namingFor("crm", nil).tool(long)
		if err != nil {
			t.Fatal(err)
		}
		if to, ok := resolve(t, c, "ann", public); !ok || to != crmTool(long) {
			t.Errorf("resolved to %+v, %v", to, ok)
		}
		in := by("bob", call(mcp.MethodToolsCall, public))
		in.Target = crmTool(strings.TrimPrefix(public, "crm__")) // what it looks like
		refused(t, c, in, mcp.CodeInvalidParams)
		if to, ok := resolve(t, c, "ann", "crm__of_facade"); ok {
			t.Errorf("resolved to %+v", to)
		}
	})
	bubble(t, "another user's tool does not exist", func(t *testing.T) {
		c := start(t, perUser(toolsOf(newServer("crm"))))
		wantToolsOf(t, c, "bob", "crm__of-bob")
		in := by("ann", call(mcp.MethodToolsCall, "crm__of-bob"))
		in.Target = crmTool("of-bob")
		if e := refused(t, c, in, mcp.CodeInvalidParams); e.Message != "Unknown tool: crm__of-bob" {
			t.Errorf("got %q", e.Message)
		}
		if to, ok := resolve(t, c, "ann", "crm__of-bob"); ok {
			t.Errorf("now that her list is known it resolves to %+v", to)
		}
		if to, ok := resolve(t, c, "bob", "crm__of-bob"); !ok || to != crmTool("of-bob") {
			t.Errorf("bob's resolves to %+v, %v", to, ok)
		}
	})
	bubble(t, "why it fails is told to who may call it, and only to them", func(t *testing.T) {
		crm := newServer("crm").fails(mcp.MethodDiscover,
			mcp.UpstreamError(failure.UpstreamLogin, "crm", mcp.ExecutedNo, "sign in at crm"))
		c := start(t, perUser(crm))
		in := by("ann", call(mcp.MethodToolsCall, "crm__a"))
		in.Target = crmTool("a")
		if e := refused(t, c, in, mcp.CodeUpstreamAuthFailed); e.Message != "sign in at crm" {
			t.Errorf("got %q", e.Message)
		}
		asked := len(crm.calls)
		after(time.Hour)
		in.Target = crmTool("b")
		refused(t, c, in, mcp.CodeInvalidParams)
		if len(crm.calls) != asked {
			t.Error("the upstream was asked for a call that policy did not decide on")
		}
	})
	bubble(t, "what answers otherwise is only unavailable", func(t *testing.T) {
		crm := newServer("crm").fails(mcp.MethodToolsList, errors.New("secret detail"))
		c := start(t, perUser(crm))
		in := by("ann", call(mcp.MethodToolsCall, "crm__a"))
		in.Target = crmTool("a")
		if e := refused(t, c, in, mcp.CodeUpstreamUnreachable); strings.Contains(e.Message, "secret") {
			t.Errorf("got %q", e.Message)
		}
	})
	bubble(t, "resources and completions", func(t *testing.T) {
		crm := newServer("crm").has(mcp.MethodResourceTemplatesList, template("file:///{path}"))
		c := start(t, perUser(crm))
		wantResult(t, do(t, c, by("ann", call(mcp.MethodResourcesRead, "crm+file:///a"))),
			`{"from":"crm","name":"file:///a"}`)
		complete := call(mcp.MethodComplete, "crm+file:///{path}", `{"ref":{"type":"ref/resource"}}`)
		wantResult(t, do(t, c, by("ann", complete)), `{"completion":{"values":["crm","file:///{path}"]}}`)
		if n := crm.called(mcp.MethodResourcesList); n != 0 {
			t.Errorf("lists were asked for %d times", n)
		}
	})
}

func TestPerUserListening(t *testing.T) {
	bubble(t, "in the caller's own session, for as long as they listen", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		in := by("ann", call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`))
		ann := listenBy(t, c, in)
		bob := listenAs(t, c, "bob")
		ann.want(t, ack(`{"toolsListChanged":true,"promptsListChanged":true}`))
		if n := len(crm.open(false)); n != 2 {
			t.Fatalf("%d streams stand", n)
		}
		for _, got := range crm.calls {
			if got.Method == mcp.MethodListen && got.Caller.Subject == "ann" &&
				(got.Session != in.Session ||
					string(got.Params) != `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`) {
				t.Errorf("listens as %+v with %s", got, got.Params)
			}
		}
		asked := crm.called(mcp.MethodToolsList)
		wantToolsOf(t, c, "ann", "crm__of-ann")
		if n := crm.called(mcp.MethodToolsList) - asked; n != 1 {
			t.Errorf("asked %d times after nobody had listened", n)
		}
		asked = crm.called(mcp.MethodToolsList)
		wantToolsOf(t, c, "ann", "crm__of-ann")
		for st := range crm.streams {
			if st.user == "ann" {
				st.notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw(`{}`)})
			}
		}
		after(time.Second)
		ann.want(t, ack(`{"toolsListChanged":true,"promptsListChanged":true}`), toolsChanged)
		bob.want(t, ack(`{"toolsListChanged":true}`))
		wantToolsOf(t, c, "ann", "crm__of-ann")
		if n := crm.called(mcp.MethodToolsList) - asked; n != 1 {
			t.Errorf("asked %d times after the change", n)
		}
		ann.cancel()
		<-ann.ended
		if n := len(crm.open(false)); n != 1 {
			t.Errorf("%d streams stand", n)
		}
	})
	bubble(t, "what is lost is listened to again, and counts as changed", func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm))
		ann := listenAs(t, c, "ann")
		crm.open(false)[0].end <- errors.New("gone")
		after(5 * time.Second)
		ann.want(t, ack(`{"toolsListChanged":true}`), toolsChanged)
		if n := len(crm.open(false)); n != 1 {
			t.Errorf("%d streams stand", n)
		}
	})
	bubble(t, "not where it would tell nothing, and never what is not visible", func(t *testing.T) {
		quiet, hidden := newServer("quiet"), newServer("hidden")
		quiet.caps = `{"tools":{}}`
		c := start(t, perUser(quiet), perUser(hidden))
		in := by("ann", call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true}}`))
		listenBy(t, c, seeing(in, "quiet"))
		synctest.Wait()
		if quiet.called(mcp.MethodListen) != 0 || len(hidden.calls) != 0 {
			t.Errorf("%d and %d calls", quiet.called(mcp.MethodListen), len(hidden.calls))
		}
	})
}

func TestPerUserStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		crm := toolsOf(newServer("crm"))
		c := start(t, perUser(crm)) // waits for nobody
		wantToolsOf(t, c, "ann", "crm__of-ann")
		if v := c.Status()[0]; v.State != StatePerUser || v.Tools != 0 || v.LastError != "" {
			t.Errorf("got %+v", v)
		}
		refused(t, c, call("tools/other", ""), mcp.CodeMethodNotFound)
	})
}

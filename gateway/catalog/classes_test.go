package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// byClass makes a server show tools by what its client declares: echo to all, ask, page,
// sample, compose, roots and view to those that can do so, and type to those that cannot be
// asked in a form.
func byClass(s *server) *server {
	return s.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
		return &mcp.Reply{List: &mcp.List{Items: toolItems(toolsFor(call.Caps)...)}}, nil
	})
}

func toolItems(names ...string) (items []mcp.Item) {
	for _, name := range names {
		items = append(items, mcp.Item{Name: name, Raw: mcp.Raw(tool(name))})
	}
	return items
}

func toolsFor(caps mcp.Raw) []string {
	if caps == nil {
		return []string{"ask", "compose", "echo", "page", "roots", "sample", "view"}
	}
	d, names := mcp.ReadDeclared(caps), []string{"echo"}
	for name, has := range map[string]bool{
		"ask": d.Form, "page": d.URL, "sample": d.Sampling, "compose": d.SamplingTools, "roots": d.Roots,
		"view": len(d.Extensions) > 0, "type": !d.Form,
	} {
		if has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func classed(s *server) Source { return Source{Upstream: s, ByClass: true} }

// declares makes a call belong to a client with these capabilities.
func declares(caps string, c *mcp.Call) *mcp.Call {
	c.Caps = mcp.Raw(caps)
	return c
}

func seenAs(t testing.TB, c *Catalog, caps string) string {
	t.Helper()
	var names []string
	for _, item := range do(t, c, declares(caps, call(mcp.MethodToolsList, ""))).List.Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func TestClasses(t *testing.T) {
	const whole = `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"x":{}}}`
	bubble(t, "each client sees what it would see at the server", func(t *testing.T) {
		doc, zoo := newServer("doc").tools("read"), newServer("zoo").tools("feed")
		crm := byClass(newServer("crm"))
		c := start(t, classed(doc), classed(crm), Source{Upstream: zoo})
		for caps, want := range map[string]string{
			"":                                      "echo type",
			"{}":                                    "echo type",
			`{"roots":{"listChanged":true}}`:        "echo roots type",
			`{"elicitation":{}}`:                    "ask echo",
			`{"elicitation":{"url":{}}}`:            "echo page type",
			`{"elicitation":{"form":{}, "url":{}}}`: "ask echo page",
			`{"sampling":{}}`:                       "echo sample type",
			`{"sampling":{"tools":{}},"other":1}`:   "compose echo sample type",
			`{"extensions":{"x":{}}}`:               "echo type view",
			whole:                                   "ask compose echo page roots sample view",
		} {
			want = "doc__read crm__" + strings.Join(strings.Fields(want), " crm__") + " zoo__feed"
			if got := seenAs(t, c, caps); got != want {
				t.Errorf("%s sees %q, want %q", caps, got, want)
			}
			for _, name := range []string{"ask", "type", "compose"} {
				in := declares(caps, call(mcp.MethodToolsCall, "crm__"+name))
				if strings.Contains(want, in.Name) {
					do(t, c, in)
				} else if e := refused(t, c, in, mcp.CodeInvalidParams); e.Error() != mcp.ErrUnknown(in.Method, in.Name).Error() {
					t.Errorf("%s: %v", caps, e)
				}
			}
		}
		if n := doc.called(mcp.MethodToolsList); n != 2 {
			t.Errorf("an upstream that shows the same to all was asked %d times", n)
		}
		if list := do(t, c, call(mcp.MethodToolsList, "")).List; !list.Private {
			t.Error("a list that differs by class is not private")
		}
		if list := do(t, c, call(mcp.MethodPromptsList, "")).List; list.Private {
			t.Error("a list that is the same for all is private")
		}
	})
	bubble(t, "what is equal is one", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		c := start(t, classed(crm))
		list := func(caps string) *mcp.List {
			return do(t, c, declares(caps, call(mcp.MethodToolsList, ""))).List
		}
		bare, form := list("{}"), list(`{"elicitation":{}}`)
		asked := crm.called(mcp.MethodToolsList)
		if list("") != bare || list(`{"other":{}}`) != bare || list(`{ "elicitation":{"form":{}}}`) != form {
			t.Error("clients of one class get different lists")
		}
		if crm.called(mcp.MethodToolsList) != asked {
			t.Error("a class was looked at again")
		}
		s := c.snap.Load()
		nothing, _ := c.classes.of(s, mcp.Raw("{}"))
		if nothing.lists[prompts] != s.lists[prompts] ||
			s.states[0].classes[declaresNothing].lists[prompts] != s.states[0].lists[prompts] {
			t.Error("an equal list is kept twice")
		}
		for range 3 {
			after(refreshAfter)
			list(`{"elicitation":{}}`)
		}
		if list("{}") != bare || list(`{"elicitation":{}}`) != form {
			t.Error("equal lists are made again")
		}
	})
	bubble(t, "the first call of a class may be of a tool", func(t *testing.T) {
		c := start(t, classed(byClass(newServer("crm"))))
		do(t, c, declares(`{"sampling":{}}`, call(mcp.MethodToolsCall, "crm__sample")))
	})
	bubble(t, "beyond the bound, a client sees what those see that declare nothing", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		c := start(t, classed(crm))
		caps := func(i int) string { return fmt.Sprintf(`{"elicitation":{},"extensions":{"x%d":{}}}`, i) }
		for i := range maxLooks {
			if got := seenAs(t, c, caps(i)); got != "crm__ask crm__echo crm__view" {
				t.Errorf("class %d sees %q", i, got)
			}
		}
		if got := seenAs(t, c, caps(maxLooks)); got != "crm__echo crm__type" {
			t.Errorf("a class too many sees %q", got)
		}
		after(2 * classIdle)
		if got := seenAs(t, c, caps(maxLooks)); got != "crm__ask crm__echo crm__view" {
			t.Errorf("in the place of a class of which nobody has called it sees %q", got)
		}
	})
	bubble(t, "upstreams are told of a class again before its place is idle", func(t *testing.T) {
		c := start(t, classed(byClass(newServer("crm"))))
		const form = `{"elicitation":{}}`
		settled := func() bool { return c.snap.Load().settled(mcp.Raw(form)) }
		if settled() {
			t.Error("a class of which nobody has called is settled")
		}
		seenAs(t, c, form)
		if seenAs(t, c, form); !settled() {
			t.Error("a class as which all have been looked at is not settled")
		}
		if after(classIdle / 2); settled() {
			t.Error("a class stays settled without a word to the upstreams")
		}
	})
	bubble(t, "a cursor is good for its class", func(t *testing.T) {
		c := newCatalog(t, Config{}, classed(byClass(newServer("crm"))))
		c.plan.pageSize = 1
		running(t, c)
		c.WaitFirst(t.Context())
		next := *do(t, c, declares(`{"roots":{}}`, call(mcp.MethodToolsList, ""))).List.Next
		in := func(caps string) *mcp.Call {
			return declares(caps, call(mcp.MethodToolsList, "", string(mcp.Object("cursor", mcp.String(next)))))
		}
		do(t, c, in(`{"roots":{}}`))
		refused(t, c, in("{}"), mcp.CodeInvalidParams)
	})
	bubble(t, "a name means the same to all clients", func(t *testing.T) {
		none := ""
		c := start(t, plain(newServer("doc").tools("ask", "read")),
			Source{Upstream: byClass(newServer("crm")), Prefix: &none, ByClass: true})
		for caps, want := range map[string]string{"{}": "read echo type", `{"elicitation":{}}`: "read echo"} {
			if got := seenAs(t, c, caps); got != want {
				t.Errorf("%s sees %q, want %q", caps, got, want)
			}
			refused(t, c, declares(caps, call(mcp.MethodToolsCall, "ask")), mcp.CodeInvalidParams)
		}
	})
}

func TestClassesChange(t *testing.T) {
	const form = `{"elicitation":{}}`
	bubble(t, "what a server says that it has changed", func(t *testing.T) {
		more := false
		crm := newServer("crm")
		crm.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			names := []string{"echo"}
			if more && (call.Caps == nil || mcp.ReadDeclared(call.Caps).Form) {
				names = append(names, "ask")
			}
			return &mcp.Reply{List: &mcp.List{Items: toolItems(names...)}}, nil
		})
		c := start(t, classed(crm))
		cl := listenBy(t, c, declares(form, call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true}}`)))
		if got := seenAs(t, c, form); got != "crm__echo" {
			t.Errorf("at first: %q", got)
		}
		cl.told()
		for range 2 {
			more = !more
			crm.says(mcp.NoteToolsListChanged, "{}")
			after(time.Second)
			want := map[bool]string{true: "crm__ask crm__echo", false: "crm__echo"}[more]
			if got := seenAs(t, c, form); got != want {
				t.Errorf("sees %q, want %q", got, want)
			}
			if got := seenAs(t, c, "{}"); got != "crm__echo" {
				t.Errorf("who declares nothing sees %q", got)
			}
			if told := cl.told(); len(told) == 0 {
				t.Error("a listener is not told")
			}
		}
	})
	bubble(t, "a look that fails", func(t *testing.T) {
		crm, broken := byClass(newServer("crm")), true
		answer := crm.override[mcp.MethodToolsList]
		crm.on(mcp.MethodToolsList, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if broken && call.Caps != nil {
				return nil, mcp.Errorf(failure.Internal, "no")
			}
			return answer(ctx, call)
		})
		c := start(t, classed(crm))
		const all = "crm__ask crm__compose crm__echo crm__page crm__roots crm__sample crm__view"
		if got := seenAs(t, c, "{}"); got != all {
			t.Errorf("without a look: %q", got)
		}
		if state := stateOf(c, 0); state != StateUp {
			t.Errorf("the upstream is %s", state)
		}
		broken = false
		crm.open(false)[0].end <- errors.New("gone")
		after(time.Minute)
		if got := seenAs(t, c, "{}"); got != "crm__echo crm__type" {
			t.Errorf("with a look: %q", got)
		}
		crm.on(mcp.MethodToolsList, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			if call.Caps != nil && string(call.Caps) != declaresNothing {
				return nil, mcp.Errorf(failure.Internal, "no")
			}
			return answer(ctx, call)
		})
		if got := seenAs(t, c, form); got != "crm__echo crm__type" {
			t.Errorf("a class that cannot be looked at sees %q", got)
		}
		crm.on(mcp.MethodToolsList, answer)
		after(classRetry)
		if got := seenAs(t, c, form); got != "crm__ask crm__echo" {
			t.Errorf("later it sees %q", got)
		}
	})
	bubble(t, "a look that is slow", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		answer := crm.override[mcp.MethodToolsList]
		c := start(t, classed(crm))
		cl := listenBy(t, c, declares("{}", call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true}}`)))
		crm.on(mcp.MethodToolsList, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
			waitFor(ctx, 2*classWait)
			return answer(ctx, call)
		})
		for _, wait := range []time.Duration{classWait, 0} {
			began := time.Now()
			if got := seenAs(t, c, form); got != "crm__echo crm__type" {
				t.Errorf("at first it sees %q", got)
			}
			if took := time.Since(began); took != wait {
				t.Errorf("the list took %v, want %v", took, wait)
			}
		}
		cl.told()
		after(2 * classWait)
		if got := seenAs(t, c, form); got != "crm__ask crm__echo" {
			t.Errorf("then it sees %q", got)
		}
		if told := cl.told(); len(told) == 0 {
			t.Error("listeners are not told")
		}
	})
	bubble(t, "the first look as a client that declares nothing is waited for", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		answer := crm.override[mcp.MethodToolsList]
		slow := func(takes time.Duration) {
			crm.on(mcp.MethodToolsList, func(ctx context.Context, call *mcp.Call) (*mcp.Reply, error) {
				waitFor(ctx, takes)
				return answer(ctx, call)
			})
		}
		sees := func(c *Catalog, caps, want string, wait time.Duration) {
			t.Helper()
			began := time.Now()
			list := do(t, c, declares(caps, call(mcp.MethodToolsList, ""))).List
			if took := time.Since(began); took != wait {
				t.Errorf("the list took %v, want %v", took, wait)
			}
			var names []string
			for _, item := range list.Items {
				names = append(names, strings.TrimPrefix(item.Name, "crm__"))
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s sees %q, want %q", caps, got, want)
			}
			if !list.Private {
				t.Error("a list that may differ by class is not private")
			}
		}
		slow(warmUp - time.Millisecond)
		c := newCatalog(t, Config{}, classed(crm))
		stop := running(t, c)
		sees(c, "{}", "echo type", 2*(warmUp-time.Millisecond))
		stop()

		slow(warmUp + classWait/2)
		c = newCatalog(t, Config{}, classed(crm))
		running(t, c)
		const all = "ask compose echo page roots sample view" // what the gateway sees
		sees(c, "{}", all, warmUp+classWait)
		sees(c, "{}", all, 0)
		if c.WaitFirst(t.Context()); c.snap.Load().states[0].halfSeen {
			t.Error("the upstream counts as heard before it was looked at as both")
		}
		sees(c, "{}", "echo type", 0)
		sees(c, form, "echo type", classWait)
	})
	bubble(t, "a reload that begins or ends looks as other clients", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		c := newCatalog(t, Config{}, Source{Upstream: crm})
		for _, looked := range []bool{true, false} {
			stop := running(t, c)
			c.WaitFirst(t.Context())
			seenAs(t, c, "{}")
			stop()
			next, err := c.Successor(Config{}, []Source{{Upstream: crm, ByClass: looked}},
				Deps{Log: c.log, Seal: c.seal, Tasks: c.taskSeal})
			if err != nil {
				t.Fatal(err)
			}
			if k := next.snap.Load().states[0]; k.classes != nil || k.halfSeen != looked {
				t.Errorf("looked as others: %v, and before they have begun or ended it is %v", looked, k.halfSeen)
			}
			c = next
		}
	})
	bubble(t, "a reload keeps what classes see", func(t *testing.T) {
		crm := byClass(newServer("crm"))
		before := newCatalog(t, Config{}, classed(crm))
		stop := running(t, before)
		before.WaitFirst(t.Context())
		want := seenAs(t, before, form)
		stop()
		crm.unreachable(true)
		c, err := before.Successor(Config{}, []Source{classed(crm)},
			Deps{Log: before.log, Seal: before.seal, Tasks: before.taskSeal})
		if err != nil {
			t.Fatal(err)
		}
		running(t, c)
		after(time.Second)
		if got := seenAs(t, c, form); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		after(2 * keepLists)
		if got := seenAs(t, c, form); got != "" {
			t.Errorf("of an upstream that is down for long it sees %q", got)
		}
		if k := c.snap.Load().states[0]; k.classes != nil || !k.halfSeen {
			t.Error("of an upstream that is down for long, it is still known what classes see")
		}
	})
}

func TestClassesOfUsers(t *testing.T) {
	bubble(t, "each user sees their own by class", func(t *testing.T) {
		crm, doc := byClass(newServer("crm")), byClass(newServer("doc"))
		c := start(t, Source{Upstream: crm, PerUser: true, ByClass: true}, classed(doc))
		for range 2 {
			for caps, want := range map[string]string{"{}": "echo type", `{"elicitation":{}}`: "ask echo"} {
				for _, user := range []string{"ann", "bob"} {
					in := declares(caps, by(user, call(mcp.MethodToolsList, "")))
					var got []string
					for _, item := range do(t, c, in).List.Items {
						_, name, _ := strings.Cut(item.Name, "__")
						got = append(got, name)
					}
					if strings.Join(got, " ") != want+" "+want {
						t.Errorf("%s, who declares %s, sees %q", user, caps, got)
					}
				}
			}
			refused(t, c, declares("{}", by("ann", call(mcp.MethodToolsCall, "crm__ask"))), mcp.CodeInvalidParams)
			do(t, c, declares(`{"elicitation":{}}`, by("ann", call(mcp.MethodToolsCall, "crm__ask"))))
		}
		if n := crm.called(mcp.MethodToolsList); n != 4 {
			t.Errorf("asked %d times for two users with two clients each", n)
		}
	})
}

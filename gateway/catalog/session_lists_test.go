package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// workshop is a server whose tools, resources and skills differ by session.
type workshop struct {
	*server

	mu   sync.Mutex
	open map[string]map[string][]mcp.Item // what open sessions have in addition, by method
	gone map[string]string                // a tool or a skill that they lack
}

func newWorkshop(name string, tools ...string) *workshop {
	w := &workshop{server: newServer(name).tools(tools...), open: make(map[string]map[string][]mcp.Item),
		gone: make(map[string]string)}
	for _, method := range []string{mcp.MethodToolsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
		mcp.MethodSkillsList} {
		w.on(method, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			w.server.mu.Lock()
			items := slices.Clone(w.items[method])
			w.server.mu.Unlock()
			w.mu.Lock()
			defer w.mu.Unlock()
			items = append(items, w.open[call.Session][method]...)
			lacks := w.gone[call.Session]
			return &mcp.Reply{List: &mcp.List{Items: slices.DeleteFunc(items,
				func(i mcp.Item) bool { return i.Name == lacks })}}, nil
		})
	}
	return w
}

func (w *workshop) source() Source {
	return Source{Upstream: w, ByClass: true, Keeps: func() bool { return true },
		HasSession: func(_ context.Context, call *mcp.Call) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.open[call.Session] != nil
		}}
}

// grow adds an item to a list of a session, which is open from then on.
func (w *workshop) grow(session, method, item string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[session] == nil {
		w.open[session] = make(map[string][]mcp.Item)
	}
	name := mcp.Raw(item).At(mcp.ItemKey(method)).Text()
	w.open[session][method] = append(w.open[session][method], mcp.Item{Name: name, Raw: mcp.Raw(item)})
}

// lose makes a session lack a tool or a skill.
func (w *workshop) lose(session, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[session], w.gone[session] = make(map[string][]mcp.Item), name
}

func (w *workshop) end(c *Catalog, session string) {
	w.mu.Lock()
	delete(w.open, session)
	w.mu.Unlock()
	c.HearSession(w.Name(), mcp.SessionLists{Session: session, At: session, Over: true})
}

// tells says that tools of a session have changed.
func (w *workshop) tells(c *Catalog, session string) {
	c.HearSession(w.Name(), mcp.SessionLists{Session: session, At: session, Lists: mcp.ToolLists, Told: true})
}

// in makes a call belong to a session.
func in(session string, c *mcp.Call) *mcp.Call {
	c.Session = session
	return c
}

// hears makes the client of a session listen to changes of tools.
func hears(t *testing.T, c *Catalog, session string) *client {
	cl := listenBy(t, c, in(session, call(mcp.MethodListen, "", `{"notifications":{"toolsListChanged":true}}`)))
	cl.told()
	return cl
}

func wantTools(t *testing.T, c *Catalog, session, want string) {
	t.Helper()
	wantView(t, c, in(session, call(mcp.MethodToolsList, "")), want)
}

func wantUnknown(t *testing.T, c *Catalog, call *mcp.Call) {
	t.Helper()
	if e := refused(t, c, call, mcp.CodeInvalidParams); e.Error() != mcp.ErrUnknown(call.Method, call.Name).Error() {
		t.Errorf("got %v", e)
	}
}

// TestSessionThatAlwaysTells: a server may tell a session of a change whenever it is asked there.
func TestSessionThatAlwaysTells(t *testing.T) {
	bubble(t, "the pauses grow", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		var asked atomic.Int64
		w.on(mcp.MethodToolsList, func(_ context.Context, call *mcp.Call) (*mcp.Reply, error) {
			asked.Add(1)
			w.tells(c, "a:1")
			w.mu.Lock()
			defer w.mu.Unlock()
			return &mcp.Reply{List: &mcp.List{Items: slices.Clone(w.open["a:1"][mcp.MethodToolsList])}}, nil
		})
		hears(t, c, "a:1")
		w.tells(c, "a:1")
		after(10 * time.Minute)
		before := asked.Load()
		after(10 * time.Minute)
		if n := asked.Load() - before; n < 5 || n > 25 {
			t.Errorf("fetched %d times in ten minutes", n)
		}
		w.grow("a:1", mcp.MethodToolsList, tool("more"))
		after(2 * time.Minute)
		wantTools(t, c, "a:1", "w__extra w__more")
	})
}

func TestSessionLists(t *testing.T) {
	extra := func(session string) *mcp.Call { return in(session, call(mcp.MethodToolsCall, "w__extra")) }
	bubble(t, "what a session has, it alone sees and can call, until it ends", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, Source{Upstream: newServer("doc").tools("read")}, w.source())
		ann := hears(t, c, "a:1")
		bob := hears(t, c, "b:1")
		wantTools(t, c, "a:1", "doc__read w__make")
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		w.tells(c, "a:1")
		after(time.Second)
		if got := ann.told(); len(got) != 2 || !strings.HasPrefix(got[1], mcp.NoteToolsListChanged) {
			t.Errorf("ann was told %q", got)
		}
		if got := bob.told(); len(got) != 1 {
			t.Errorf("bob was told %q", got)
		}
		wantTools(t, c, "a:1", "doc__read w__extra w__make")
		wantTools(t, c, "b:1", "doc__read w__make")
		if list := do(t, c, in("a:1", call(mcp.MethodToolsList, ""))).List; !list.Private {
			t.Error("the list of a session is not private")
		}
		if list := do(t, c, in("b:1", call(mcp.MethodToolsList, ""))).List; list.Private {
			t.Error("the list of all others is private")
		}
		wantResult(t, do(t, c, extra("a:1")), `{"from":"w","name":"extra"}`)
		wantUnknown(t, c, extra("b:1"))
		if a, b := c.OwnLists("a:1"), c.OwnLists("b:1"); len(a) != 1 || a[0] != "w" || len(b) != 0 {
			t.Errorf("own lists of %q and %q", a, b)
		}
		if schema := c.For(extra("a:1")).Schema(t.Context(), "w__extra"); string(schema.Text) != `{"type":"object"}` {
			t.Errorf("the schema is %s", schema.Text)
		}
		asked := w.called(mcp.MethodToolsList)
		wantTools(t, c, "a:1", "doc__read w__extra w__make")
		w.tells(c, "b:1") // many servers tell each new session
		after(time.Second)
		wantTools(t, c, "b:1", "doc__read w__make")
		if got := w.called(mcp.MethodToolsList) - asked; got != 0 { // b has no session
			t.Errorf("%d lists were fetched", got)
		}
		w.end(c, "a:1")
		after(time.Second)
		if got := ann.told(); len(got) != 3 {
			t.Errorf("ann was told %q", got)
		}
		wantTools(t, c, "a:1", "doc__read w__make")
		wantUnknown(t, c, extra("a:1"))
	})
	bubble(t, "nothing is kept of a session that is told of nothing new", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodPromptsList, `{"name":"p"}`)
		ann := hears(t, c, "a:1")
		asked := w.called(mcp.MethodToolsList)
		w.tells(c, "a:1")
		after(time.Second)
		if got := ann.told(); len(got) != 1 || w.called(mcp.MethodToolsList) != asked+1 {
			t.Errorf("told %q", got)
		}
		if due, later := c.sessions.table.outdated("a:1"); due != nil || later != nil ||
			c.sessions.table.shown("a:1") != nil {
			t.Error("something is kept")
		}
	})
	bubble(t, "a tool is found that was never listed", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		w.tells(c, "a:1")
		do(t, c, extra("a:1"))
	})
	bubble(t, "it can lack a tool, and a change for all reaches it", func(t *testing.T) {
		w := newWorkshop("w", "make", "take")
		c := start(t, w.source())
		w.lose("a:1", "make")
		w.tells(c, "a:1")
		wantTools(t, c, "a:1", "w__take")
		wantUnknown(t, c, in("a:1", call(mcp.MethodToolsCall, "w__make")))
		w.tools("bake", "make", "take")
		w.says(mcp.NoteToolsListChanged, "{}")
		after(time.Second)
		wantTools(t, c, "a:1", "w__bake w__take")
		wantTools(t, c, "b:1", "w__bake w__make w__take")
		w.tools("take")
		w.says(mcp.NoteToolsListChanged, "{}")
		after(time.Second)
		wantTools(t, c, "a:1", "w__take")
		if c.sessions.table.shown("a:1") != nil {
			t.Error("a difference is kept that is none any more")
		}
	})
	bubble(t, "a name that another upstream has stands for nothing", func(t *testing.T) {
		w, other := newWorkshop("w", "make"), newServer("other").tools("extra")
		none := ""
		from := w.source()
		from.Prefix = &none
		c := start(t, from, plain(other))
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		w.tells(c, "a:1")
		wantTools(t, c, "a:1", "make")
		wantTools(t, c, "b:1", "make extra")
		wantUnknown(t, c, in("a:1", call(mcp.MethodToolsCall, "extra")))
	})
	bubble(t, "resources with and without a marked URI", func(t *testing.T) {
		w, p, other := newWorkshop("w"), newWorkshop("p"), newServer("other")
		none := ""
		bare := p.source()
		bare.Prefix = &none
		c := start(t, w.source(), bare, plain(other))
		for _, of := range []*workshop{w, p} {
			of.grow("a:1", mcp.MethodResourcesList, `{"uri":"demo://`+of.name+`","name":"x"}`)
			c.HearSession(of.name, mcp.SessionLists{Session: "a:1", Lists: mcp.ResourceLists, Told: true})
		}
		wantView(t, c, in("a:1", call(mcp.MethodResourcesList, "")), "w+demo://w demo://p")
		wantView(t, c, in("b:1", call(mcp.MethodResourcesList, "")), "")
		wantResult(t, do(t, c, in("a:1", call(mcp.MethodResourcesRead, "demo://p"))), `{"from":"p","name":"demo://p"}`)
		if _, ok := resolve(t.Context(), c, in("b:1", call(mcp.MethodResourcesRead, "demo://p")), mcp.KindResources,
			"demo://p"); ok {
			t.Error("another session has the resource")
		}
	})
	bubble(t, "a server that fails is asked again later", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		listens := w.override[mcp.MethodToolsList]
		w.unreachable(true)
		ann := hears(t, c, "a:1")
		w.tells(c, "a:1")
		after(time.Second)
		asked := w.called(mcp.MethodToolsList)
		wantTools(t, c, "a:1", "w__make")
		if got := w.called(mcp.MethodToolsList); got != asked {
			t.Error("it was asked again at once")
		}
		w.unreachable(false)
		w.on(mcp.MethodToolsList, listens)
		after(retrySession + time.Second)
		if got := ann.told(); !strings.HasPrefix(got[len(got)-1], mcp.NoteToolsListChanged) {
			t.Errorf("told %q", got)
		}
		wantTools(t, c, "a:1", "w__extra w__make")
	})
	bubble(t, "a server that hangs delays one list, and that not for long", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		w.on(mcp.MethodToolsList, func(ctx context.Context, _ *mcp.Call) (*mcp.Reply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		w.tells(c, "a:1")
		for _, most := range []time.Duration{sessionWait, 0} {
			began := time.Now()
			wantTools(t, c, "a:1", "w__make")
			if took := time.Since(began); took != most {
				t.Errorf("the list took %s, want %s", took, most)
			}
		}
	})
	bubble(t, "beyond the bound it sees what all see", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := start(t, w.source())
		for i := range maxDiffering + 1 {
			w.grow("a:1", mcp.MethodToolsList, tool(fmt.Sprint("extra", i)))
		}
		w.tells(c, "a:1")
		wantTools(t, c, "a:1", "w__make")
	})
}

// TestSessionListsOfSilentServers: the lists of a session are fetched again after calls, where
// the server would not tell, but not after each call of a tool that changes nothing.
func TestSessionListsOfSilentServers(t *testing.T) {
	w := newWorkshop("w", "echo", "enable")
	c := start(t, w.source())
	w.lose("a:1", "")
	calls := func(session, name string) {
		do(t, c, in(session, call(mcp.MethodToolsCall, "w__"+name)))
		c.HearSession("w", mcp.SessionLists{Session: session, At: session, Lists: mcp.ToolLists, Tool: name})
	}
	lists := func(session string) int {
		before := w.called(mcp.MethodToolsList)
		do(t, c, in(session, call(mcp.MethodToolsList, "")))
		return w.called(mcp.MethodToolsList) - before
	}
	var fetches []int
	for i := range 100 {
		calls("a:1", "echo")
		if lists("a:1") == 1 {
			fetches = append(fetches, i+1)
		}
	}
	if want := []int{1, 2, 3, 5, 9, 17, 33, 65}; !slices.Equal(fetches, want) {
		t.Errorf("lists were fetched after calls %v, want %v", fetches, want)
	}
	w.grow("a:1", mcp.MethodToolsList, tool("extra"))
	calls("a:1", "enable")
	if got := lists("a:1"); got != 1 {
		t.Errorf("%d fetches after a tool that was not called before", got)
	}
	wantTools(t, c, "a:1", "w__echo w__enable w__extra")
	for i := range 20 {
		if calls("a:1", "enable"); lists("a:1") != 1 {
			t.Errorf("no fetch after call %d of a tool that has changed lists once", i)
		}
	}
	do(t, c, in("a:1", call(mcp.MethodToolsCall, "w__extra")))
}

func TestSessionListsOfViews(t *testing.T) {
	bubble(t, "a view narrows them, and gives short names", func(t *testing.T) {
		w := newWorkshop("w", "make")
		c := startViews(t, []view.Config{{Name: "v", Show: []string{"tools:w/extra", "tools:doc/*"}, DropPrefixes: true}},
			Source{Upstream: newServer("doc").tools("read")}, w.source())
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		w.grow("a:1", mcp.MethodToolsList, tool("other"))
		w.tells(c, "a:1")
		wantView(t, c, at("v", in("a:1", call(mcp.MethodToolsList, ""))), "read extra")
		wantView(t, c, at("v", in("b:1", call(mcp.MethodToolsList, ""))), "read")
		do(t, c, at("v", in("a:1", call(mcp.MethodToolsCall, "extra"))))
	})
	bubble(t, "pages", func(t *testing.T) {
		w := newWorkshop("w", "a", "b", "c", "d")
		c := startViews(t, nil, w.source())
		first := do(t, c, in("b:1", call(mcp.MethodToolsList, ""))).List
		w.grow("a:1", mcp.MethodToolsList, tool("bb"))
		w.tells(c, "a:1")
		wantTools(t, c, "a:1", "w__a w__b w__bb w__c w__d")
		own := do(t, c, in("a:1", call(mcp.MethodToolsList, ""))).List
		c.sessions.laid.Purge() // cursors outlive what is remembered
		next := do(t, c, in("a:1", call(mcp.MethodToolsList, "", string(mcp.Object("cursor", mcp.String(*own.Next)))))).List
		if len(next.Items) != 2 || next.Items[0].Name != "w__bb" {
			t.Errorf("the next page has %v", next.Items)
		}
		refused(t, c, in("a:1", call(mcp.MethodToolsList, "", string(mcp.Object("cursor", mcp.String(*first.Next))))),
			mcp.CodeInvalidParams)
		do(t, c, in("b:1", call(mcp.MethodToolsList, "", string(mcp.Object("cursor", mcp.String(*first.Next))))))
	})
	bubble(t, "they lie over what a user sees", func(t *testing.T) {
		w, crm := newWorkshop("w", "make"), toolsOf(newServer("crm"))
		c := start(t, w.source(), perUser(crm))
		session := someone("ann").User() + ":1"
		w.grow(session, mcp.MethodToolsList, tool("extra"))
		wantToolsOf(t, c, "ann", "w__make", "crm__of-ann")
		w.tells(c, session)
		wantToolsOf(t, c, "ann", "w__extra", "w__make", "crm__of-ann")
		wantToolsOf(t, c, "bob", "w__make", "crm__of-bob")
		do(t, c, by("ann", call(mcp.MethodToolsCall, "w__extra")))
		do(t, c, by("ann", call(mcp.MethodToolsCall, "crm__of-ann")))
	})
}

// notes is a Keeper in memory.
type notes struct{ sync.Map }

func (n *notes) Load(_ context.Context, session, name string) ([]byte, error) {
	value, ok := n.Map.Load(session + " " + name)
	if !ok {
		return nil, nil
	}
	return value.([]byte), nil
}

func (n *notes) Save(_ context.Context, session, name string, value []byte) error {
	n.Store(session+" "+name, value)
	return nil
}

func TestSessionListsMove(t *testing.T) {
	key, err := seal.NewRandom("cursor")
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{Log: slog.New(slog.DiscardHandler), Seal: key, Tasks: key, Keep: &notes{}}
	began := func(t *testing.T, c *Catalog, err error) *Catalog {
		if err != nil {
			t.Fatal(err)
		}
		running(t, c)
		c.WaitFirst(t.Context())
		return c
	}
	w := newWorkshop("w", "make")
	one, err := New(Config{}, []Source{w.source()}, deps)
	one = began(t, one, err)
	w.grow("a:1", mcp.MethodToolsList, tool("extra"))
	w.tells(one, "a:1")
	wantTools(t, one, "a:1", "w__extra w__make")

	t.Run("to another process", func(t *testing.T) {
		two, err := New(Config{}, []Source{w.source()}, deps)
		two = began(t, two, err)
		wantTools(t, two, "a:1", "w__make")
		two.Arrived("a:1")
		wantTools(t, two, "a:1", "w__extra w__make")
		two.Arrived("b:1")
		wantTools(t, two, "b:1", "w__make")
		asked := w.called(mcp.MethodToolsList)
		two.Arrived("a:1")
		w.mu.Lock()
		delete(w.open, "a:1") // the session was not resumed
		w.mu.Unlock()
		wantTools(t, two, "a:1", "w__make")
		if w.called(mcp.MethodToolsList) != asked {
			t.Error("a session was opened only for its lists")
		}
	})
	t.Run("to another configuration", func(t *testing.T) {
		w.grow("a:1", mcp.MethodToolsList, tool("extra"))
		short, other := "x_", w.source()
		other.Prefix = &short
		next, err := one.Successor(Config{}, []Source{{Upstream: newServer("new").tools("t")}, other}, deps)
		next = began(t, next, err)
		wantTools(t, next, "a:1", "new__t x_extra x_make")
	})
}

// TestSessionListsMemory: sessions that differ take memory for what differs.
func TestSessionListsMemory(t *testing.T) {
	const all, sessions = 500, 100
	about := mcp.String(strings.Repeat("what this tool does ", 100)) // 2 KB
	w := newWorkshop("w")
	var items []string
	for i := range all {
		items = append(items, string(mcp.Raw(tool(fmt.Sprintf("tool-%03d", i))).With("description", about)))
	}
	w.has(mcp.MethodToolsList, items...)
	c := start(t, w.source())
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	fetch := func(i int) {
		session := fmt.Sprintf("a:%d", i)
		w.grow(session, mcp.MethodToolsList, string(mcp.Raw(tool(fmt.Sprintf("own-%d", i))).With("description", about)))
		w.tells(c, session)
		c.sessions.renew(t.Context(), in(session, call(mcp.MethodToolsList, "")), setOf(tools), true)
		w.mu.Lock()
		w.server.mu.Lock()
		w.calls = nil
		w.server.mu.Unlock()
		w.mu.Unlock()
	}
	fetch(-1)
	before := memory()
	for i := range sessions {
		fetch(i)
	}
	each := (memory() - before) / sessions
	t.Logf("%d bytes for each session", each) // a whole list takes 1 MB
	if each > 16<<10 {
		t.Errorf("%d bytes for each session that has one tool of 2 KB more", each)
	}
	for i := range 2 * maxLaid {
		do(t, c, in(fmt.Sprintf("a:%d", i), call(mcp.MethodToolsCall, fmt.Sprintf("w__own-%d", i))))
	}
	if n := c.sessions.laid.Len(); n != maxLaid {
		t.Errorf("%d snapshots are remembered", n)
	}
	runtime.KeepAlive(c)
}

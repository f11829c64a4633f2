package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// paged returns a catalog with small pages.
func paged(t *testing.T, size int, servers ...*server) *Catalog {
	t.Helper()
	c := newCatalog(t, Config{}, sourcesOf(servers)...)
	c.plan.pageSize = size
	running(t, c)
	c.WaitFirst(t.Context())
	return c
}

func toolNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tool%04d", i)
	}
	return names
}

func listCall(user, cursor string) *mcp.Call {
	c := call(mcp.MethodToolsList, "")
	c.Caller = mcp.NewCaller(mcp.Caller{Issuer: "i", Subject: user})
	if cursor != "" {
		c.Params = mcp.Object("cursor", mcp.String(cursor))
	}
	return c
}

// walk follows the cursors as a user and returns all names.
func walk(t *testing.T, c *Catalog, user string) (names []string) {
	t.Helper()
	for cursor := ""; ; {
		list := do(t, c, listCall(user, cursor)).List
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if list.Next == nil {
			return names
		}
		if cursor = *list.Next; cursor == "" {
			t.Fatal("an empty cursor was sent")
		}
	}
}

func TestEveryItemOnceInStableOrder(t *testing.T) {
	z, a := newServer("z").tools("b", "a", "B"), newServer("a").tools(toolNames(10)...)
	c := paged(t, 4, z, a)
	got := walk(t, c, "ann")
	want := []string{"z__B", "z__a", "z__b"} // config order, then name
	for _, name := range toolNames(10) {
		want = append(want, "a__"+name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if again := walk(t, c, "ann"); !slices.Equal(again, got) {
		t.Errorf("then %q", again)
	}
}

// TestOneItemSpoilsNoList: official clients refuse a list because of one item.
func TestOneItemSpoilsNoList(t *testing.T) {
	bad := newServer("bad").has(mcp.MethodToolsList, `{"name":"null","description":null}`,
		`{"name":"wrong","inputSchema":[]}`, tool("good")).
		has(mcp.MethodPromptsList, `{"name":"null","arguments":null}`, `{"name":"wrong","arguments":7}`).
		has(mcp.MethodResourcesList, `{"uri":"file:///null"}`, `{"uri":"file:///wrong","name":7}`,
			`{"uri":"file://<id>","name":"a"}`, `{"uri":"","name":"a"}`).
		has(mcp.MethodResourceTemplatesList, `{"uriTemplate":"file:///{null}","name":null}`,
			`{"uriTemplate":"file:///{wrong}","name":7}`)
	c := start(t, Source{Upstream: bad}, Source{Upstream: newServer("good").tools("t")})
	wantNames(t, c, mcp.MethodToolsList, "bad__good", "bad__null", "good__t")
	wantNames(t, c, mcp.MethodPromptsList, "bad__null")
	wantNames(t, c, mcp.MethodResourcesList, "bad+file:///null")
	wantNames(t, c, mcp.MethodResourceTemplatesList, "bad+file:///{null}")
	if got := string(do(t, c, call(mcp.MethodToolsList,
		"")).List.Items[1].Raw); got != `{"name":"bad__null","inputSchema":{"type":"object"}}` {
		t.Errorf("got %s", got)
	}
	var reasons []string
	for _, w := range c.Status()[0].Withheld {
		reasons = append(reasons, w.List+" "+w.Name+": "+w.Reason)
	}
	want := []string{
		"tools wrong: its definition is wrong: inputSchema is no object",
		"prompts wrong: its definition is wrong: arguments is no list",
		"resources file:///wrong: its definition is wrong: name is no text", "resources file://<id>: " + errBadURI.Error(),
		"resources : " + errNoURI.Error(),
		"resource templates file:///{wrong}: its definition is wrong: name is no text",
	}
	if !slices.Equal(reasons, want) {
		t.Errorf("got  %q\nwant %q", reasons, want)
	}
}

func TestListsAreReused(t *testing.T) {
	c := paged(t, 4, newServer("crm").tools(toolNames(6)...))
	first := do(t, c, listCall("ann", "")).List
	for _, user := range []string{"ann", "bob"} {
		if again := do(t, c, listCall(user, "")).List; again.Origin() != first.Origin() {
			t.Errorf("the first page is made anew for %s", user)
		}
	}
	last := do(t, c, listCall("ann", *first.Next)).List
	if again := do(t, c, listCall("ann", *first.Next)).List; again != last || len(last.Items) != 2 {
		t.Error("the last page is another List the second time")
	}
}

func TestCursorsOfServers(t *testing.T) {
	s := newServer("crm").tools(toolNames(10)...).has(mcp.MethodPromptsList, `{"name":"a"}`, `{"name":"b"}`,
		`{"name":"c"}`, `{"name":"d"}`, `{"name":"e"}`)
	c := paged(t, 4, s)
	own := *do(t, c, listCall("ann", "")).List.Next
	others := *do(t, c, listCall("bob", "")).List.Next
	wrong := func(cursor string) string { return string(mcp.Object("cursor", mcp.String(cursor))) }
	tests := []struct{ name, params string }{
		{"another user's", wrong(others)},
		{"altered", wrong(own[:len(own)-2] + "AA")},
		{"cut", wrong(own[:len(own)-1])},
		{"an upstream's", wrong("page2")},
		{"empty", wrong("")},
		{"a number", `{"cursor":7}`},
		{"null", `{"cursor":null}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bad := listCall("ann", "")
			bad.Params = mcp.Raw(tt.params)
			if e := refused(t, c, bad, mcp.CodeInvalidParams); !strings.Contains(e.Message, "start again without a cursor") {
				t.Errorf("%q does not say what to do", e.Message)
			}
		})
	}
	t.Run("of another method", func(t *testing.T) {
		bad := listCall("ann", own)
		bad.Method = mcp.MethodPromptsList
		refused(t, c, bad, mcp.CodeInvalidParams)
	})
	t.Run("its own is good", func(t *testing.T) {
		do(t, c, listCall("ann", own))
	})
	t.Run("of a list that has changed since", func(t *testing.T) {
		s.tools(toolNames(11)...)
		c.publisher.publish(0, withTools(c, 0, toolNames(11)...))
		refused(t, c, listCall("ann", own), mcp.CodeInvalidParams)
	})
}

// withTools returns the state of a source, with other tools.
func withTools(c *Catalog, source int, names ...string) sourceState {
	state := c.snap.Load().states[source]
	var items []mcp.Item
	for _, name := range names {
		items = append(items, mcp.Item{Name: name, Raw: mcp.Raw(tool(name))})
	}
	state.heard = true
	state.lists[tools] = newPublicList(c.plan, c.sources[source].naming, tools, fetched{items: items})
	return state
}

func TestGenerationsAgreeBetweenReplicas(t *testing.T) {
	secret := []byte("0123456789abcdef0123456789abcdef")
	var replicas []*Catalog
	for range 2 {
		c := paged(t, 4, newServer("crm").tools(toolNames(10)...))
		key, err := seal.NewKey(secret, "cursor")
		if err != nil {
			t.Fatal(err)
		}
		c.seal = key
		replicas = append(replicas, c)
	}
	cursor := *do(t, replicas[0], listCall("ann", "")).List.Next
	if got := do(t, replicas[1], listCall("ann", cursor)).List.Items[0].Name; got != "crm__tool0004" {
		t.Errorf("the other replica's page begins with %s", got)
	}
}

func FuzzCursor(f *testing.F) {
	key, err := seal.NewRandom("cursor")
	if err != nil {
		f.Fatal(err)
	}
	c := &Catalog{seal: key}
	l := &listing{generation: "g", pages: make([]*mcp.List, 3)}
	of := &mcp.Call{Method: mcp.MethodToolsList}
	f.Add(`"`+sealCursor(c, 1, of, l)+`"`, true)
	f.Add(`""`, false)
	f.Add(`7`, false)
	f.Fuzz(func(t *testing.T, cursor string, _ bool) {
		at, err := openCursor(c, mcp.Raw(cursor), of, l)
		if err == nil && (at < 0 || at >= len(l.pages)) {
			t.Fatalf("page %d", at)
		}
		if err == nil && at != 1 {
			t.Fatalf("%s opened page %d", cursor, at)
		}
	})
}

func TestFreshness(t *testing.T) {
	now := time.Now()
	state := func(expires time.Time, private bool) sourceState {
		s := sourceState{heard: true, state: StateUp, offers: readOffers(mcp.Raw(allCaps))}
		for k := range kinds {
			s.lists[k] = &publicList{offered: true, expires: expires, private: private}
		}
		return s
	}
	without := sourceState{heard: true, state: StateUp}
	for k := range kinds {
		without.lists[k] = &publicList{}
	}
	tests := []struct {
		name    string
		states  []sourceState
		expires time.Time
		private bool
	}{
		{"the smallest in", []sourceState{state(now.Add(time.Hour), false), state(now.Add(time.Minute), false)},
			now.Add(time.Minute), false},
		{"one that does not say", []sourceState{state(now, false), state(time.Time{}, false)}, time.Time{}, false},
		{"one that never answered", []sourceState{state(now, false), {}}, time.Time{}, false},
		{"one without such a list", []sourceState{state(now, false), without}, now, false},
		{"private as soon as one is", []sourceState{state(now, true), state(now, false)}, now, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &plan{namings: make([]naming, len(tt.states)), pageSize: 10}
			l := build(p, tt.states, nil).lists[tools]
			if !l.expires.Equal(tt.expires) || l.private != tt.private {
				t.Errorf("got %v %v, want %v %v", l.expires, l.private, tt.expires, tt.private)
			}
		})
	}
}

package listchange

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// guarded returns the stage above a guard, above a handler that answers.
func guarded(t testing.TB, rules policy.Config, answer func(*mcp.Call) (*mcp.Reply, error)) mcp.Handler {
	t.Helper()
	p, err := policy.New(rules)
	if err != nil {
		t.Fatal(err)
	}
	g, err := policy.NewGuard(p, policy.GuardDeps{})
	if err != nil {
		t.Fatal(err)
	}
	last := mcp.HandlerFunc(func(_ context.Context, c *mcp.Call) (*mcp.Reply, error) { return answer(c) })
	return mcp.Chain(last, Middleware(g.SeesAll), g.Middleware)
}

func alice() mcp.Caller {
	return mcp.NewCaller(mcp.Caller{Issuer: "https://login.example.com", Subject: "alice", ClientID: "cli"})
}

// TestListsChangeForThoseWhoSeeIt changes lists while a caller listens who may see
// some of their items.
func TestListsChangeForThoseWhoSeeIt(t *testing.T) {
	lists := map[string][]string{}
	broken, absent := false, false
	var listening *mcp.Call
	answer := func(c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodListen {
			listening = c
			c.Notify(mcp.Event{Method: mcp.NoteAcknowledged, Params: c.Params})
			return nil, nil
		}
		if absent {
			return nil, mcp.ErrMethod(c.Method)
		}
		if broken {
			return nil, mcp.Errorf(failure.Internal, "not now")
		}
		kind := map[string]string{mcp.MethodToolsList: mcp.KindTools, mcp.MethodPromptsList: mcp.KindPrompts}[c.Method]
		if kind == "" {
			kind = mcp.KindResources
		}
		l := &mcp.List{}
		for _, name := range lists[c.Method] { // two pages
			plain, version, _ := strings.Cut(name, "@")
			l.Items = append(l.Items, mcp.Item{Name: plain,
				Raw:    mcp.Object("name", mcp.String(plain), "version", mcp.String(version)),
				Target: mcp.Target{Kind: kind, Upstream: "u", Name: plain}})
		}
		half := len(l.Items) / 2
		if c.Params == nil {
			next := "2"
			return &mcp.Reply{List: &mcp.List{Items: l.Items[:half], Next: &next}}, nil
		}
		return &mcp.Reply{List: &mcp.List{Items: l.Items[half:]}}, nil
	}
	var heard []string
	listen := func(rules policy.Config, filter mcp.Filter) {
		t.Helper()
		c := &mcp.Call{Method: mcp.MethodListen, Params: filter.In(nil), Caller: alice()}
		c.Notify = func(e mcp.Event) { heard = append(heard, strings.TrimPrefix(e.Method, "notifications/")) }
		if _, err := guarded(t, rules, answer).Handle(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		heard = nil
	}
	tools := func(names ...string) { lists[mcp.MethodToolsList] = names }
	tools("open-1", "secret-1", "open-2@1")
	listen(policy.Config{Rules: []policy.Rule{{Name: "open", Who: policy.Who{Users: []string{"alice"}},
		Allow: []string{"*:u/open*"}}}},
		mcp.Filter{Lists: mcp.AllLists &^ mcp.SkillLists})
	for _, step := range []struct {
		name   string
		change func()
		note   string
		want   bool
	}{
		{"nothing", func() {}, mcp.NoteToolsListChanged, false},
		{"something hidden comes", func() { tools("open-1", "secret-1", "secret-2", "open-2@1") },
			mcp.NoteToolsListChanged, false},
		{"something hidden goes", func() { tools("open-1", "open-2@1") }, mcp.NoteToolsListChanged, false},
		{"something comes", func() { tools("open-1", "open-2@1", "open-3") }, mcp.NoteToolsListChanged, true},
		{"nothing more", func() {}, mcp.NoteToolsListChanged, false},
		{"something is another", func() { tools("open-1", "open-2@2", "open-3") }, mcp.NoteToolsListChanged, true},
		{"the order", func() { tools("open-2@2", "open-1", "open-3") }, mcp.NoteToolsListChanged, true},
		{"another list", func() {}, mcp.NotePromptsListChanged, false},
		{"a prompt", func() { lists[mcp.MethodPromptsList] = []string{"open"} }, mcp.NotePromptsListChanged, true},
		{"a template", func() { lists[mcp.MethodResourceTemplatesList] = []string{"open"} },
			mcp.NoteResourcesListChanged, true},
		{"a hidden template", func() { lists[mcp.MethodResourceTemplatesList] = []string{"open", "secret"} },
			mcp.NoteResourcesListChanged, false},
		{"nobody can tell", func() { broken = true }, mcp.NoteToolsListChanged, true},
		{"since then", func() { broken = false }, mcp.NoteToolsListChanged, true},
		{"it is known again", func() {}, mcp.NoteToolsListChanged, false},
		{"everything goes", func() { tools() }, mcp.NoteToolsListChanged, true},
		{"nobody offers such a list any more", func() { absent = true }, mcp.NoteToolsListChanged, false},
		{"somebody does, with something hidden", func() { absent = false; tools("secret-1") },
			mcp.NoteToolsListChanged, false},
	} {
		step.change()
		heard = nil
		listening.Notify(mcp.Event{Method: step.note, Params: mcp.Raw("{}")})
		want := []string{}
		if step.want {
			want = append(want, strings.TrimPrefix(step.note, "notifications/"))
		}
		if !slices.Equal(heard, want) {
			t.Errorf("%s: heard %q, want %q", step.name, heard, want)
		}
	}

	t.Run("who sees all hears all", func(t *testing.T) {
		listen(policy.Config{Default: policy.DefaultAllow}, mcp.Filter{Lists: mcp.ToolLists})
		listening.Notify(mcp.Event{Method: mcp.NoteToolsListChanged, Params: mcp.Raw("{}")})
		if len(heard) != 1 {
			t.Errorf("heard %q", heard)
		}
	})
}

func BenchmarkListChanged(b *testing.B) {
	l := &mcp.List{}
	for n := range 1000 {
		name := fmt.Sprint("open-", n)
		l.Items = append(l.Items, mcp.Item{Name: name, Raw: mcp.Object("name", mcp.String(name)),
			Target: mcp.Target{Kind: mcp.KindTools, Upstream: "u", Name: name}})
	}
	h := guarded(b, policy.Config{Rules: []policy.Rule{{Name: "open", Allow: []string{"tools:u/open*"}}}},
		func(*mcp.Call) (*mcp.Reply, error) {
			return &mcp.Reply{List: l}, nil
		})
	w := &watch{next: h, last: map[mcp.Lists]mcp.ListSum{}}
	for b.Loop() {
		w.changed(b.Context(), NewReader(&mcp.Call{Method: mcp.MethodListen, Caller: alice()}), mcp.ToolLists)
	}
}

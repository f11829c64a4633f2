package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func listOf(targets ...mcp.Target) *mcp.List {
	l := &mcp.List{Items: []mcp.Item{}}
	for _, t := range targets {
		l.Items = append(l.Items, mcp.Item{Name: public(t), Raw: mcp.Object("name", mcp.String(public(t))), Target: t})
	}
	return l
}

func namesIn(l *mcp.List) string {
	var names []string
	for _, item := range l.Items {
		names = append(names, item.Name)
	}
	return strings.Join(names, " ")
}

func TestLists(t *testing.T) {
	template := resource("u", "file:///{+path}")
	template.Template = true
	cursor := "next"
	source := listOf(tool("u", "get"), tool("u", "set"), tool("v", "get"), template, mcp.Target{})
	source.Next, source.Expires = &cursor, time.Now().Add(time.Minute)
	s := newShelves()
	s.answer = func(*mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{List: source}, nil }
	h := guardForTest(t, Config{Rules: []Rule{
		{Name: "all", Allow: []string{"tools:*/get"}},
		{Name: "dev", Who: Who{Groups: []string{"dev"}}, Allow: []string{"tools:u/*", "resources:u/file:///docs/*"}},
		{Name: "sre", Who: Who{Groups: []string{"sre"}}, Allow: []string{"tools:u/set"}, Ask: []string{"tools:u/set"}},
	}}, s)
	list := func(c mcp.Caller) *mcp.List {
		t.Helper()
		reply, err := h.Handle(t.Context(), callOf(mcp.MethodToolsList, "", "", c))
		if err != nil || reply.List == nil {
			t.Fatalf("got %+v, %v", reply, err)
		}
		if !reply.List.Private || reply.List.Next != source.Next || !reply.List.Expires.Equal(source.Expires) {
			t.Errorf("got %+v", reply.List)
		}
		return reply.List
	}
	plain, dev, sre := list(user("alice")), list(user("bob", "dev")), list(user("carol", "sre"))
	for _, tt := range []struct {
		list *mcp.List
		want string
	}{{plain, "u__get v__get"}, {dev, "u__get u__set v__get u+file:///{+path}"}, {sre, "u__get u__set v__get"}} {
		if got := namesIn(tt.list); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	// Who sees the same gets the same List, with what was rendered of it.
	if list(user("dave")) != plain || list(user("erin", "hr")) != plain || list(user("bob", "dev")) != dev {
		t.Error("made anew")
	}
	if len(source.Items) != 5 || source.Private {
		t.Error("the source was changed")
	}
	// A list that changed is another list.
	source = listOf(tool("v", "get"))
	source.Next = &cursor
	if got := namesIn(list(user("alice"))); got != "v__get" {
		t.Errorf("got %q", got)
	}
}

// TestListsOfEverything: without rules lists stay as they are; with rules even a list of
// which nothing is hidden is private, since others may see less.
func TestListsOfEverything(t *testing.T) {
	source := listOf(tool("u", "get"))
	s := newShelves()
	s.answer = func(*mcp.Call) (*mcp.Reply, error) { return &mcp.Reply{List: source}, nil }
	list := func(cfg Config) *mcp.List {
		reply, err := guardForTest(t, cfg, s).Handle(t.Context(), callOf(mcp.MethodToolsList, "", "", user("alice")))
		if err != nil {
			t.Fatal(err)
		}
		return reply.List
	}
	rules := Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:*"}}}}
	if list(Config{Default: DefaultAllow}) != source {
		t.Error("without rules the list is another one")
	}
	if got := list(rules); !got.Private || len(got.Items) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := list(Config{}); !got.Private || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("got %+v", got)
	}
	source.Private = true
	if list(rules) != source {
		t.Error("a private list of which nothing is hidden is another one")
	}
}

// TestListsAtOnce: many callers at once get what is theirs.
func TestListsAtOnce(t *testing.T) {
	var rules []Rule
	for i := range 10 {
		rules = append(rules, Rule{Name: fmt.Sprint(i), Who: Who{Groups: []string{fmt.Sprint(i)}},
			Allow: []string{fmt.Sprintf("tools:u/%d", i)}})
	}
	var targets []mcp.Target
	for i := range 10 {
		targets = append(targets, tool("u", fmt.Sprint(i)))
	}
	source := listOf(targets...)
	p := newForTest(t, Config{Rules: rules})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			groups := []string{fmt.Sprint(i % 10), fmt.Sprint((i / 10) % 10)}
			c := user(fmt.Sprint(i), groups...)
			for range 50 {
				var got []string
				for _, item := range listFor(p, p.subjectOf(&c), source).Items {
					got = append(got, item.Target.Name)
				}
				slices.Sort(groups)
				if !slices.Equal(got, slices.Compact(slices.Clone(groups))) {
					t.Errorf("%v: got %v", groups, got)
				}
			}
		})
	}
	wg.Wait()
}

// TestConditionOnCallerAndTarget: what a condition on both settles without the
// arguments holds for lists, completion and upstreams too, for each caller their own.
func TestConditionOnCallerAndTarget(t *testing.T) {
	for name, cfg := range map[string]Config{
		"allow": {Rules: []Rule{{Name: "r", Allow: []string{"*:*"}, When: "target.upstream in caller.groups"}}},
		"allow with args": {Rules: []Rule{{Name: "r", Allow: []string{"*:*"},
			When: "target.upstream in caller.groups && has(args.x)"}}},
		"ask": {Rules: []Rule{{Name: "r", Allow: []string{"*:*"}, Ask: []string{"*:*"},
			When: "target.upstream in caller.groups"}}},
		"deny": {Default: DefaultAllow, Rules: []Rule{{Name: "r", Deny: []string{"*:*"},
			When: "!(target.upstream in caller.groups)"}}},
		"cannot be told": {Rules: []Rule{{Name: "r", Ask: []string{"*:*"}, When: "caller.claims[target.upstream] == true"},
			{Name: "o", Allow: []string{"*:*"}, When: "target.upstream in caller.groups"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newForTest(t, cfg)
			wiki, payroll := user("alice", "wiki"), user("bob", "payroll")
			if name == "cannot be told" {
				wiki.Claims, payroll.Claims = mcp.Raw(`{"wiki":true}`), mcp.Raw(`{"payroll":true}`)
			}
			source := listOf(tool("wiki", "get"), tool("payroll", "get"))
			for range 2 { // the second time from memory
				for _, tt := range []struct {
					caller   *mcp.Caller
					own, not string
				}{{&wiki, "wiki", "payroll"}, {&payroll, "payroll", "wiki"}} {
					if !p.Visible(tt.caller, tool(tt.own, "get")) || !p.upstreams(tt.caller)(tt.own) {
						t.Errorf("%s does not see their own", tt.caller.Subject)
					}
					if p.Visible(tt.caller, tool(tt.not, "get")) {
						t.Errorf("%s sees a tool", tt.caller.Subject)
					}
					if p.upstreams(tt.caller)(tt.not) {
						t.Errorf("%s sees an upstream", tt.caller.Subject)
					}
					if got, want := namesIn(listFor(p, p.subjectOf(tt.caller), source)), tt.own+"__get"; got != want {
						t.Errorf("%s: got the list %q, want %q", tt.caller.Subject, got, want)
					}
					if p.Explain(t.Context(), tt.caller, tool(tt.not, "get"), nil).Listed {
						t.Errorf("%s is told of a tool", tt.caller.Subject)
					}
				}
			}
		})
	}
}

// What a server says of its tools gives nothing:.
func TestAnnotationsGiveNothing(t *testing.T) {
	source := listOf(tool("u", "get"), tool("u", "wipe"))
	for i := range source.Items {
		source.Items[i].Raw = source.Items[i].Raw.With("annotations",
			mcp.Raw(`{"readOnlyHint":true,"destructiveHint":false}`))
	}
	s := newShelves(tool("u", "get"), tool("u", "wipe"))
	s.answer = func(c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodToolsList {
			return &mcp.Reply{List: source}, nil
		}
		return &mcp.Reply{Result: mcp.Raw(`{}`)}, nil
	}
	h := guardForTest(t, Config{Rules: []Rule{{Name: "get", Allow: []string{"tools:u/get"}}}}, s)
	reply, err := h.Handle(t.Context(), callOf(mcp.MethodToolsList, "", "", user("alice")))
	if err != nil || namesIn(reply.List) != "u__get" {
		t.Fatalf("got %+v, %v", reply, err)
	}
	if _, err := h.Handle(t.Context(), callOf(mcp.MethodToolsCall, "u__wipe", `{"name":"u__wipe"}`,
		user("alice"))); err == nil {
		t.Error("a tool that says it only reads was let through")
	}
}

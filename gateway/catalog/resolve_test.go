package catalog

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestResolve(t *testing.T) {
	crm := newServer("crm").has(mcp.MethodToolsList, tool("a"), tool("b.c")).
		has(mcp.MethodPromptsList, `{"name":"ask"}`).
		has(mcp.MethodResourcesList, resource("file:///a"), resource("note:///{sloppy}"), resource("file:///both")).
		has(mcp.MethodResourceTemplatesList, template("file:///{path}"), template("file:///fixed"))
	doc := newServer("doc").has(mcp.MethodResourcesList, resource("file:///both"))
	down := newServer("down")
	down.unreachable(true)
	c := start(t, sourcesOf([]*server{crm, doc, down})...)
	dotted, err := namingFor("crm", nil).tool("b.c")
	if err != nil {
		t.Fatal(err)
	}
	none := mcp.Target{}
	tests := []struct {
		name, kind, public string
		want               mcp.Target // none: not resolved
	}{
		{"a tool", mcp.KindTools, "crm__a", mcp.Target{Kind: "tools", Upstream: "crm", Name: "a"}},
		{"a tool whose name was changed", mcp.KindTools, dotted, mcp.Target{Kind: "tools", Upstream: "crm", Name: "b.c"}},
		{"a prompt", mcp.KindPrompts, "crm__ask", mcp.Target{Kind: "prompts", Upstream: "crm", Name: "ask"}},
		{"a prompt is no tool", mcp.KindTools, "crm__ask", none},
		{"the bare name", mcp.KindTools, "a", none},
		{"with a space behind", mcp.KindTools, "crm__a ", none},
		{"percent-encoded", mcp.KindTools, "crm__%61", none},
		{"with a NUL behind", mcp.KindTools, "crm__a\x00", none},
		{"another case", mcp.KindTools, "CRM__a", none},
		{"a name of an upstream that is down", mcp.KindTools, "down__x",
			mcp.Target{Kind: "tools", Upstream: "down", Name: "x"}},
		{"its prefix alone", mcp.KindTools, "down__", none},
		{"a resource", mcp.KindResources, "crm+file:///a", mcp.Target{Kind: "resources", Upstream: "crm", Name: "file:///a"}},
		{"a resource by its original URI", mcp.KindResources, "file:///a",
			mcp.Target{Kind: "resources", Upstream: "crm", Name: "file:///a"}},
		{"an original URI that two have", mcp.KindResources, "file:///both", none},
		{"a resource that is not listed", mcp.KindResources, "crm+file:///x",
			mcp.Target{Kind: "resources", Upstream: "crm", Name: "file:///x"}},
		{"one upstream's through another's name", mcp.KindResources, "doc+file:///a",
			mcp.Target{Kind: "resources", Upstream: "doc", Name: "file:///a"}},
		{"a template", mcp.KindResources, "crm+file:///{path}",
			mcp.Target{Kind: "resources", Upstream: "crm", Name: "file:///{path}", Template: true}},
		{"a template without an expression is a URI", mcp.KindResources, "crm+file:///fixed",
			mcp.Target{Kind: "resources", Upstream: "crm", Name: "file:///fixed"}},
		{"a resource that looks like a template", mcp.KindResources, "crm+note:///{sloppy}",
			mcp.Target{Kind: "resources", Upstream: "crm", Name: "note:///{sloppy}"}},
		{"a template that nobody lists", mcp.KindResources, "crm+file:///{+path}", none},
		{"a template of an upstream that is down", mcp.KindResources, "down+file:///{path}",
			mcp.Target{Kind: "resources", Upstream: "down", Name: "file:///{path}", Template: true}},
		{"nobody's", mcp.KindResources, "other+file:///a", none},
		{"a kind that there is not", "other", "crm__a", none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := resolve(t.Context(), c, &mcp.Call{}, tt.kind, tt.public); ok != (tt.want != none) || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, ok, tt.want)
			}
		})
	}
}

func TestItemsResolveToTheirTargets(t *testing.T) {
	s := func(name string) *server {
		s := newServer(name).has(mcp.MethodToolsList, tool("a"), tool("b.c")).has(mcp.MethodPromptsList, `{"name":"ask"}`).
			has(mcp.MethodResourcesList, resource("file:///"+name), resource("ui://page")).
			has(mcp.MethodResourceTemplatesList, template(name+":///{path}")).has(mcp.MethodSkillsList, skillRecord(name))
		s.caps = allCaps[:len(allCaps)-1] + `,"skills":{}}`
		return s
	}
	c := start(t, plain(s("keep")), Source{Upstream: s("crm")})
	for k := range kinds {
		items := do(t, c, call(k.method(), "")).List.Items
		if len(items) < 2 {
			t.Fatalf("%s: %d items", k, len(items))
		}
		for _, item := range items {
			got, ok := resolve(t.Context(), c, &mcp.Call{}, k.policyKind(), item.Name)
			if !ok || got != item.Target || got.Template != (k == templates) {
				t.Errorf("%s: %s has target %+v and resolves to %+v, %v", k, item.Name, item.Target, got, ok)
			}
		}
	}
}

func TestResolveAtTheStart(t *testing.T) {
	t.Run("it waits as a list does", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCatalog(t, Config{}, Source{Upstream: newServer("crm").tools("a")})
			running(t, c)
			if to, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindTools, "crm__a"); !ok || to.Name != "a" {
				t.Errorf("got %+v, %v", to, ok)
			}
			if to, ok := resolve(t.Context(), c, &mcp.Call{}, mcp.KindTools, "crm__b"); ok {
				t.Errorf("got %+v", to)
			}
		})
	})
	t.Run("not for a client that has left", func(t *testing.T) {
		c := newCatalog(t, Config{}, Source{Upstream: newServer("crm")})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if to, ok := resolve(ctx, c, &mcp.Call{}, mcp.KindTools, "crm__a"); ok {
			t.Errorf("got %+v", to)
		}
	})
}

func TestOnlyTheTargetThatPolicyDecidedOn(t *testing.T) {
	s := newServer("crm").tools("a", "b").has(mcp.MethodPromptsList, `{"name":"a"}`).
		has(mcp.MethodResourcesList, resource("file:///a")).has(mcp.MethodResourceTemplatesList, template("file:///{path}"))
	down := newServer("down")
	down.unreachable(true)
	c := start(t, sourcesOf([]*server{s, down})...)
	prompt, uri := `{"ref":{"type":"ref/prompt"}}`, `{"ref":{"type":"ref/resource"}}`
	tool := mcp.Target{Kind: mcp.KindTools, Upstream: "crm", Name: "a"}
	t.Run("nothing is handed on, and nothing told, without a decision", func(t *testing.T) {
		for _, in := range []*mcp.Call{
			call(mcp.MethodToolsCall, "crm__a"), call(mcp.MethodPromptsGet, "crm__a"),
			call(mcp.MethodResourcesRead, "crm+file:///a"),
			call(mcp.MethodComplete, "crm__a", prompt), call(mcp.MethodComplete, "crm+file:///a", uri),
			call(mcp.MethodToolsCall, "down__a"), call(mcp.MethodResourcesRead, "down+file:///a"),
		} {
			_, err := c.Handle(t.Context(), in)
			if want := mcp.ErrUnknown(in.Method, in.Name); !reflect.DeepEqual(err, error(want)) {
				t.Errorf("%s %s: got %v, want %v", in.Method, in.Name, err, want)
			}
		}
	})
	for _, method := range []string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead,
		mcp.MethodComplete} {
		if n := s.called(method); n != 0 {
			t.Errorf("%s came to the upstream", method)
		}
	}
	tests := []struct {
		name   string
		call   *mcp.Call
		target mcp.Target
		want   int // 0: forwarded
	}{
		{"the tool", call(mcp.MethodToolsCall, "crm__a"), tool, 0},
		{"another tool", call(mcp.MethodToolsCall, "crm__b"), tool, mcp.CodeInvalidParams},
		{"another kind", call(mcp.MethodPromptsGet, "crm__a"), tool, mcp.CodeInvalidParams},
		{"another upstream", call(mcp.MethodToolsCall, "crm__a"),
			mcp.Target{Kind: mcp.KindTools, Upstream: "down", Name: "a"}, mcp.CodeInvalidParams},
		{"one that is down, decided", call(mcp.MethodToolsCall, "down__a"),
			mcp.Target{Kind: mcp.KindTools, Upstream: "down", Name: "a"}, mcp.CodeUpstreamUnreachable},
		{"one that is down, another decided", call(mcp.MethodToolsCall, "down__a"), tool, mcp.CodeInvalidParams},
		{"a resource", call(mcp.MethodResourcesRead, "crm+file:///x"),
			mcp.Target{Kind: mcp.KindResources, Upstream: "crm", Name: "file:///x"}, 0},
		{"another resource", call(mcp.MethodResourcesRead, "crm+file:///x"),
			mcp.Target{Kind: mcp.KindResources, Upstream: "crm", Name: "file:///y"}, mcp.CodeInvalidParams},
		{"a template is completed", call(mcp.MethodComplete, "crm+file:///{path}", uri),
			mcp.Target{Kind: mcp.KindResources, Upstream: "crm", Name: "file:///{path}", Template: true}, 0},
		{"a template is not read", call(mcp.MethodResourcesRead, "crm+file:///{path}"),
			mcp.Target{Kind: mcp.KindResources, Upstream: "crm", Name: "file:///{path}", Template: true}, mcp.CodeInvalidParams},
		{"a template as if it were a URI", call(mcp.MethodComplete, "crm+file:///{path}", uri),
			mcp.Target{Kind: mcp.KindResources, Upstream: "crm", Name: "file:///{path}"}, mcp.CodeInvalidParams},
		{"a prompt's completion", call(mcp.MethodComplete, "crm__a", prompt),
			mcp.Target{Kind: mcp.KindPrompts, Upstream: "crm", Name: "a"}, 0},
		{"under a tool's decision", call(mcp.MethodComplete, "crm__a", prompt), tool, mcp.CodeInvalidParams},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.call.Target = tt.target
			if tt.want == 0 {
				do(t, c, tt.call)
				return
			}
			e := refused(t, c, tt.call, tt.want)
			if unknown := mcp.ErrUnknown(tt.call.Method, tt.call.Name); tt.want == unknown.Code && e.Message != unknown.Message {
				t.Errorf("got %q, want %q", e.Message, unknown.Message)
			}
		})
	}
}

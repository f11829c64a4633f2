package catalog

import (
	"context"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestUnknownNames(t *testing.T) {
	up := newServer("up").tools("a")
	down := newServer("down").tools("a")
	down.unreachable(true)
	c := start(t, sourcesOf([]*server{up, down})...)
	t.Run("nobody's", func(t *testing.T) {
		for _, name := range []string{"up__b", "a", "", "up__", "UP__a", "other__a"} {
			e := refused(t, c, call(mcp.MethodToolsCall, name), mcp.CodeInvalidParams)
			if e.Message != "Unknown tool: "+name {
				t.Errorf("got %q", e.Message)
			}
		}
	})
	t.Run("of an upstream whose list never came", func(t *testing.T) {
		for method, what := range map[string]string{mcp.MethodToolsCall: "tools", mcp.MethodPromptsGet: "prompts"} {
			e := refused(t, c, call(method, "down__a"), mcp.CodeUpstreamUnreachable)
			if !strings.Contains(e.Message, "Upstream down is not available") || !strings.Contains(e.Message, what) ||
				string(e.Data) != `{"upstream":"down","retryable":true,"executed":"no"}` {
				t.Errorf("got %q %s", e.Message, e.Data)
			}
		}
	})
	t.Run("the others are listed all the same", func(t *testing.T) {
		wantNames(t, c, mcp.MethodToolsList, "up__a")
	})
	t.Run("the longest prefix decides whose name it could be", func(t *testing.T) {
		a, b := newServer("a").tools("x"), newServer("b")
		b.unreachable(true)
		none := ""
		c := start(t, Source{Upstream: a}, Source{Upstream: b, Prefix: &none})
		refused(t, c, call(mcp.MethodToolsCall, "a__y"), mcp.CodeInvalidParams)
		refused(t, c, call(mcp.MethodToolsCall, "y"), mcp.CodeUpstreamUnreachable)
	})
	t.Run("an upstream that says it has none is not missing", func(t *testing.T) {
		s := newServer("crm")
		s.caps = `{"prompts":{}}`
		s.fails(mcp.MethodPromptsList, mcp.ErrMethod(mcp.MethodPromptsList))
		c := start(t, Source{Upstream: s}, Source{Upstream: newServer("doc").tools("a")})
		refused(t, c, call(mcp.MethodToolsCall, "crm__x"), mcp.CodeInvalidParams)
		refused(t, c, call(mcp.MethodPromptsGet, "crm__x"), mcp.CodeInvalidParams)
		if n := s.called(mcp.MethodToolsList); n != 0 {
			t.Errorf("a list that is not offered was asked for %d times", n)
		}
	})
}

func TestCompletion(t *testing.T) {
	crm := newServer("crm").has(mcp.MethodPromptsList, `{"name":"ask"}`).
		has(mcp.MethodResourceTemplatesList, template("file:///{path}")).has(mcp.MethodResourcesList, resource("file:///a"))
	mute := newServer("mute").has(mcp.MethodPromptsList, `{"name":"ask"}`)
	mute.caps = `{"prompts":{},"resources":{}}`
	shy := newServer("shy").has(mcp.MethodPromptsList, `{"name":"ask"}`).fails(mcp.MethodComplete,
		mcp.ErrMethod(mcp.MethodComplete))
	c := start(t, sourcesOf([]*server{crm, mute, shy})...)
	const none = `{"completion":{"values":[]}}`
	tests := []struct{ name, kind, ref, want string }{
		{"a prompt", "ref/prompt", "crm__ask", `{"completion":{"values":["crm","ask"]}}`},
		{"a template", "ref/resource", "crm+file:///{path}", `{"completion":{"values":["crm","file:///{path}"]}}`},
		{"a resource", "ref/resource", "crm+file:///a", `{"completion":{"values":["crm","file:///a"]}}`},
		{"a template by its original name", "ref/resource", "file:///{path}",
			`{"completion":{"values":["crm","file:///{path}"]}}`},
		{"an upstream without completions", "ref/prompt", "mute__ask", none},
		{"the same for a resource", "ref/resource", "mute+x:y", none},
		{"an upstream that offers them and has none", "ref/prompt", "shy__ask", none},
		{"an unknown prompt", "ref/prompt", "crm__other", ""},
		{"an unknown resource", "ref/resource", "file:///other", ""},
		{"a tool's name", "ref/tool", "crm__ask", ""},
		{"no type", "", "crm__ask", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := call(mcp.MethodComplete, tt.ref, string(mcp.Object("ref", mcp.Object("type", mcp.String(tt.kind)))))
			if tt.want == "" {
				refused(t, c, in, mcp.CodeInvalidParams)
				return
			}
			wantResult(t, do(t, c, in), tt.want)
		})
	}
	if n := mute.called(mcp.MethodComplete); n != 0 {
		t.Errorf("an upstream without completions was asked %d times", n)
	}
}

func TestPrefixIsTheConfiguredName(t *testing.T) {
	s := newServer("crm").tools("a")
	s.on(mcp.MethodDiscover, func(context.Context, *mcp.Call) (*mcp.Reply, error) {
		return &mcp.Reply{Result: mcp.Raw(`{"capabilities":{"tools":{}},"serverInfo":{"name":"evil","version":"1"}}`)}, nil
	})
	c := start(t, Source{Upstream: s})
	wantNames(t, c, mcp.MethodToolsList, "crm__a")
}

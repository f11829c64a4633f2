//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// tryDisclosure runs the TypeScript SDKs, each in its eras, through progressive disclosure
// (docs/disclosure.md).
func (l *lab) tryDisclosure(t *testing.T, upstreams []upstream) {
	i := slices.IndexFunc(upstreams, func(u upstream) bool { return u.kind == everything })
	u := upstreams[i]
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{
		Binary: l.gateway, Dir: t.TempDir(), Sections: "disclosure: {mode: progressive}\n" +
			upstreamsSection(t, upstreams[i:i+1]),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "the gateway", g.Process)
	if err := g.WaitTools(ctx, u.tool("echo"), "describe_tools"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []client{
		{name: "TypeScript SDK v1", sdk: "v1", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 legacy", sdk: "v2", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 pinned", sdk: "v2", mode: stateless, version: stateless},
	} {
		t.Run(c.name, func(t *testing.T) { l.tryWorkflow(t, c, g.URL, u) })
	}
}

// tryWorkflow performs all steps of the workflow on one connection. The SDKs validate every
// answer with their own schemas.
func (l *lab) tryWorkflow(t *testing.T, c client, url string, u upstream) {
	const descriptions = "resource:///tool_descriptions"
	echo := step{Method: "tools/call", Params: map[string]any{"name": u.tool("echo"),
		"arguments": map[string]any{"message": "hi"}}}
	sum := step{Method: "tools/call", Params: map[string]any{"name": u.tool("get-sum"),
		"arguments": map[string]any{"a": 2, "b": 3}}}
	steps := []struct {
		title string
		step
		check func(t *testing.T, o outcome)
	}{
		{"list", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			for _, raw := range o.Result.Tools {
				var tool struct {
					Name, Description string
					InputSchema       struct{ Properties map[string]any }
					OutputSchema      map[string]any
				}
				if err := json.Unmarshal(raw, &tool); err != nil {
					t.Fatal(err)
				}
				if tool.Name != "describe_tools" && (tool.InputSchema.Properties != nil || tool.OutputSchema != nil ||
					tool.Description == "") {
					t.Errorf("listed is %s", raw)
				}
			}
		}},
		{"resources", step{Method: "resources/list"}, func(t *testing.T, o outcome) {
			if len(o.Result.Resources) == 0 || o.Result.Resources[0].URI != descriptions {
				t.Errorf("listed are %+v", o.Result.Resources)
			}
		}},
		{"too early", echo, func(t *testing.T, o outcome) {
			if !o.Result.IsError || len(o.Result.Content) != 1 ||
				!strings.Contains(o.Result.Content[0].Text, `"TOOL_DESCRIPTION_REQUIRED"`) {
				t.Errorf("got %+v", o.Result)
			}
		}},
		{"complete", step{Method: "completion/complete", Params: map[string]any{
			"ref":      map[string]any{"type": "ref/resource", "uri": descriptions + "{?tools}"},
			"argument": map[string]any{"name": "tools", "value": u.tool("ec")},
		}}, func(t *testing.T, o outcome) {
			if !slices.Equal(o.Result.Completion.Values, []string{u.tool("echo")}) {
				t.Errorf("got %q", o.Result.Completion.Values)
			}
		}},
		{"nothing selected", step{Method: "resources/read", Params: map[string]any{"uri": descriptions}},
			func(t *testing.T, o outcome) {
				if len(o.Result.Contents) != 1 || !strings.Contains(o.Result.Contents[0].Text, `"MISSING_TOOL_SELECTION"`) {
					t.Errorf("got %+v", o.Result.Contents)
				}
			}},
		{"read", step{Method: "resources/read", Params: map[string]any{"uri": descriptions + "?tools=" + u.tool("echo")}},
			func(t *testing.T, o outcome) {
				if len(o.Result.Contents) != 1 || !strings.Contains(o.Result.Contents[0].Text, `"message"`) {
					t.Errorf("got %+v", o.Result.Contents)
				}
			}},
		{"call", echo, func(t *testing.T, o outcome) {
			if o.Result.IsError || len(o.Result.Content) == 0 || !strings.Contains(o.Result.Content[0].Text, "hi") {
				t.Errorf("got %+v", o.Result)
			}
		}},
		{"describe_tools", step{Method: "tools/call",
			Params: map[string]any{"name": "describe_tools", "arguments": map[string]any{"names": []string{u.tool("get-sum")}}}},
			func(t *testing.T, o outcome) {
				if o.Result.IsError || len(o.Result.Content) != 1 || !strings.Contains(o.Result.Content[0].Text, `"inputSchema"`) {
					t.Errorf("got %+v", o.Result)
				}
			}},
		{"call another", sum, func(t *testing.T, o outcome) {
			if o.Result.IsError || len(o.Result.Content) == 0 || !strings.Contains(o.Result.Content[0].Text, "5") {
				t.Errorf("got %+v", o.Result)
			}
		}},
	}
	var all []step
	for _, s := range steps {
		all = append(all, s.step)
	}
	r := l.run(t, c, url, all)
	if r.Version != c.version {
		t.Errorf("negotiated %q, want %q", r.Version, c.version)
	}
	if !strings.Contains(r.Instructions, "TOOL_DESCRIPTION_REQUIRED") {
		t.Errorf("the instructions are %q", r.Instructions)
	}
	for i, s := range steps {
		t.Run(s.title, func(t *testing.T) {
			r.Outcomes[i].noError(t)
			s.check(t, r.Outcomes[i])
		})
	}
}

//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// TestInterop puts the gateway between real clients and real servers.
func TestInterop(t *testing.T) {
	l := newLab(t)
	upstreams := l.startUpstreams(t)
	gateway := l.startGateway(t, upstreams)

	for _, c := range []client{
		{name: "TypeScript SDK v1", sdk: "v1", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v1 over HTTP+SSE", sdk: "v1", mode: "sse", version: stateful},
		{name: "TypeScript SDK v2 legacy", sdk: "v2", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2 auto", sdk: "v2", mode: "auto", version: stateless},
		{name: "TypeScript SDK v2 pinned", sdk: "v2", mode: stateless, version: stateless},
		{name: "TypeScript SDK v1 over the bridge", sdk: "v1", mode: "legacy", version: stateful, bridge: true},
		{name: "TypeScript SDK v2 legacy over the bridge", sdk: "v2", mode: "legacy", version: stateful, bridge: true},
		{name: "TypeScript SDK v2 auto over the bridge", sdk: "v2", mode: "auto", version: stateless, bridge: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := gateway
			if c.mode == "sse" {
				url = strings.TrimSuffix(gateway, "/mcp") + "/sse"
			}
			l.tryClient(t, c, url, upstreams)
		})
	}
	t.Run("Inspector", func(t *testing.T) { l.tryInspector(t, upstreams, "--server-url", gateway, "--transport", "http") })
	t.Run("Inspector over the bridge", func(t *testing.T) {
		l.tryInspector(t, upstreams, l.gateway, "connect", "--stdio", gateway, "--transport", "stdio")
	})
	for name, python := range map[string]string{"Python SDK v1": l.python1, "Python SDK v2": l.python2} {
		t.Run(name+" over the bridge", func(t *testing.T) { l.tryPython(t, python, gateway, upstreams) })
	}
	t.Run("definitions pass unchanged", func(t *testing.T) { l.tryDefinitions(t, gateway, upstreams) })
	t.Run("sign-in", func(t *testing.T) { l.trySignIn(t, upstreams) })
	t.Run("skills", func(t *testing.T) { l.trySkills(t, upstreams) })
	t.Run("disclosure", func(t *testing.T) { l.tryDisclosure(t, upstreams) })
}

// startGateway starts the gateway and waits until it has the lists of all upstreams.
func (l *lab) startGateway(t *testing.T, upstreams []upstream) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: l.gateway, Dir: t.TempDir(),
		Sections: upstreamsSection(t, upstreams)})
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "the gateway", g.Process)
	var names []string
	for _, u := range upstreams {
		names = append(names, u.tool(u.tools()[0]))
	}
	if err := g.WaitTools(ctx, names...); err != nil {
		t.Fatal(err)
	}
	return g.URL
}

// expectation is a step and its expected outcome.
type expectation struct {
	title string
	step  step
	check func(*testing.T, outcome)
}

// tryClient performs all steps of all upstreams on one connection of a client.
func (l *lab) tryClient(t *testing.T, c client, url string, upstreams []upstream) {
	expectations := lists(upstreams)
	for _, u := range upstreams {
		for _, e := range u.expectations(c) {
			e.title = u.name + "/" + e.title
			expectations = append(expectations, e)
		}
	}
	var steps []step
	for _, e := range expectations {
		steps = append(steps, e.step)
	}
	r := l.run(t, c, url, steps)
	if r.Version != c.version {
		t.Errorf("negotiated %q, want %q", r.Version, c.version)
	}
	for _, capability := range []string{"tools", "resources", "prompts", "completions"} {
		if r.Capabilities[capability] == nil {
			t.Errorf("no capability %q in %s", capability, r.Capabilities)
		}
	}
	for i, e := range expectations {
		t.Run(e.title, func(t *testing.T) { e.check(t, r.Outcomes[i]) })
	}
}

// lists returns the expectations of the merged lists.
func lists(upstreams []upstream) []expectation {
	var tools, resources, templates, prompts []string
	for _, u := range upstreams {
		for _, name := range u.tools() {
			tools = append(tools, u.tool(name))
		}
		switch u.kind {
		case everything:
			resources = append(resources, u.uri("demo://resource/static/document/features.md"))
			templates = append(templates, u.uri("demo://resource/dynamic/text/{resourceId}"))
			prompts = append(prompts, u.tool("completable-prompt"))
		case python:
			resources = append(resources, u.uri("memo://today"))
			templates = append(templates, u.uri("memo://day/{day}"))
			prompts = append(prompts, u.tool("review"))
		}
	}
	return []expectation{
		{"tools list", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, raw := range o.Result.Tools {
				have = append(have, nameOf(t, raw))
			}
			containsAll(t, have, tools)
			for _, name := range have {
				if !hasPrefixOf(upstreams, name) {
					t.Errorf("tool %q has no upstream's prefix", name)
				}
			}
		}},
		{"resources list", step{Method: "resources/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, r := range o.Result.Resources {
				have = append(have, r.URI)
			}
			containsAll(t, have, resources)
		}},
		{"resource templates list", step{Method: "resources/templates/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, r := range o.Result.ResourceTemplates {
				have = append(have, r.URITemplate)
			}
			containsAll(t, have, templates)
		}},
		{"prompts list", step{Method: "prompts/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, raw := range o.Result.Prompts {
				have = append(have, nameOf(t, raw))
			}
			containsAll(t, have, prompts)
		}},
		{"unknown tool", callTool("nobody__nothing", nil), func(t *testing.T, o outcome) { o.wantError(t, -32602) }},
		{"unknown resource", readResource("nobody+memo://nothing"), func(t *testing.T, o outcome) {
			if o.Error == nil {
				t.Error("no error")
			}
		}},
	}
}

// tryDefinitions compares a server's tools with those that the gateway lists, member by
// member: only the name may differ.
func (l *lab) tryDefinitions(t *testing.T, url string, upstreams []upstream) {
	for _, u := range upstreams {
		if u.url == "" || u.sse {
			continue // the client must be able to talk to the server directly
		}
		c := client{name: "TypeScript SDK v2", sdk: "v2", mode: "auto"}
		list := []step{{Method: "tools/list"}}
		direct := l.run(t, c, u.url, list).Outcomes[0]
		through := l.run(t, c, url, list).Outcomes[0]
		want := map[string]any{}
		for _, raw := range direct.Result.Tools {
			want[u.tool(nameOf(t, raw))] = withoutName(t, raw)
		}
		for _, raw := range through.Result.Tools {
			name := nameOf(t, raw)
			if !strings.HasPrefix(name, u.name+"__") {
				continue
			}
			if have := withoutName(t, raw); !reflect.DeepEqual(have, want[name]) {
				t.Errorf("%s: listed as\n%v\nby its server as\n%v", name, have, want[name])
			}
		}
	}
}

func withoutName(t *testing.T, raw json.RawMessage) map[string]any {
	t.Helper()
	var tool map[string]any
	if err := json.Unmarshal(raw, &tool); err != nil {
		t.Fatal(err)
	}
	delete(tool, "name")
	// 2026-07-28 does not have it, so a direct client of that revision never sees it.
	delete(tool, "execution")
	return tool
}

func nameOf(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var item struct{ Name string }
	if err := json.Unmarshal(raw, &item); err != nil {
		t.Fatal(err)
	}
	return item.Name
}

func hasPrefixOf(upstreams []upstream, name string) bool {
	for _, u := range upstreams {
		if strings.HasPrefix(name, u.name+"__") {
			return true
		}
	}
	return false
}

func containsAll(t *testing.T, have, want []string) {
	t.Helper()
	in := make(map[string]int, len(have))
	for _, name := range have {
		in[name]++
		if in[name] > 1 {
			t.Errorf("%q is listed twice", name)
		}
	}
	for _, name := range want {
		if in[name] == 0 {
			t.Errorf("%q is missing in %s", name, fmt.Sprint(have))
		}
	}
}

// tryPython runs a Python SDK over the bridge.
func (l *lab) tryPython(t *testing.T, python, url string, upstreams []upstream) {
	u := upstreams[slices.IndexFunc(upstreams, func(u upstream) bool { return u.kind == everything })]
	steps := []step{{Method: "tools/list"}, callTool(u.tool("get-sum"), object{"a": 2, "b": 3}), callTool("no-such-tool", nil)}
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-B", l.checkout.Path("internal", "interop", "python", "client.py"), url)
	cmd.Env = append(os.Environ(), "BRIDGE="+l.gateway, "XDG_STATE_HOME="+t.TempDir())
	cmd.Stdin = bytes.NewReader(marshal(t, steps))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var r report
	if err != nil || json.Unmarshal(out, &r) != nil || len(r.Outcomes) != len(steps) {
		t.Fatalf("%v\n%s%s", err, out, stderr.Bytes())
	}
	if len(r.Outcomes[0].Result.Tools) < len(upstreams) {
		t.Errorf("%d tools", len(r.Outcomes[0].Result.Tools))
	}
	wantText("The sum of 2 and 3 is 5.")(t, r.Outcomes[1])
	r.Outcomes[2].wantError(t, -32602)
}

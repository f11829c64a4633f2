//go:build interop

package interop

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestDirectAndThrough compares what clients get of servers through the gateway with what they get of them
// directly: mcp-go and FastMCP, in both eras, as clients of each other and of the official SDKs, and as
// servers of each other and of the TypeScript SDKs. Pairs of two eras cannot talk directly: what they have
// to get is only expected.
func TestDirectAndThrough(t *testing.T) {
	l := newLab(t)
	upstreams := l.startSDKs(t)
	gateway := l.startGateway(t, upstreams)
	for _, c := range []client{
		{name: "mcp-go stateful", sdk: "mcp-go", version: stateful},
		{name: "mcp-go stateless", sdk: "mcp-go", version: stateless},
		{name: "FastMCP stateful", sdk: "fastmcp", version: stateful},
		{name: "FastMCP stateless", sdk: "fastmcp", version: stateless},
		{name: "TypeScript SDK v1", sdk: "v1", mode: "legacy", version: stateful},
		{name: "TypeScript SDK v2", sdk: "v2", mode: stateless, version: stateless},
	} {
		t.Run("client "+c.name, func(t *testing.T) {
			t.Parallel()
			l.tryDirectAndThrough(t, c, gateway, upstreams)
		})
	}
}

// startSDKs starts a server of each SDK. To the gateway, those of both eras are two.
func (l *lab) startSDKs(t *testing.T) []upstream {
	t.Helper()
	at := func(args ...string) string {
		addr := mcptest.LoopbackAddress(t)
		l.start(t, addr, exec.Command(args[0], append(args[1:], addr)...))
		return "http://" + addr + "/mcp"
	}
	script := func(name string) string { return l.checkout.Path("internal", "interop", "python", name) }
	mcpGo := at(l.mcpgo, "serve")
	fastMCP := at(l.fastmcp, script("fastmcp_server.py"))
	return []upstream{
		{name: "mcpgo-stateful", kind: mcpgo, revision: stateful, url: mcpGo},
		{name: "mcpgo-stateless", kind: mcpgo, revision: stateless, url: mcpGo},
		{name: "fastmcp-stateful", kind: fastmcp, revision: stateful, url: fastMCP},
		{name: "fastmcp-stateless", kind: fastmcp, revision: stateless, url: fastMCP},
		{name: "ts-stateful", kind: typescript, revision: stateful, url: at(l.node.Binary, l.node.File("server-v1.mjs"))},
		{name: "ts-stateless", kind: typescript, revision: stateless, url: at(l.node.Binary, l.node.File("server-v2.mjs"))},
		{name: "python1", kind: python, revision: stateful, url: at(l.python1, script("server.py"))},
		{name: "python2", kind: python, revision: stateless, url: at(l.python2, script("server.py"))},
	}
}

// tryDirectAndThrough takes all steps on one connection through the gateway, and those of each server that
// is of the client's era on one with that server.
func (l *lab) tryDirectAndThrough(t *testing.T, c client, gateway string, upstreams []upstream) {
	if c.sdk == "v1" || c.sdk == "v2" { // TestMatrix has the official SDKs at both ends
		upstreams = slices.DeleteFunc(slices.Clone(upstreams), func(u upstream) bool {
			return u.kind != mcpgo && u.kind != fastmcp
		})
	}
	type cell struct {
		upstream
		expectation
		have, direct *outcome // direct is nil if there is nothing to compare
	}
	var cells, late []cell
	follows := []string{}
	for _, u := range upstreams {
		if u.kind == mcpgo {
			follows = append(follows, u.uri(day(c, "gateway")))
		}
		for _, e := range u.sdkExpectations(c, "gateway") {
			if c.onlyHangsUp() && e.title == reached {
				late = append(late, cell{upstream: u, expectation: e})
			} else {
				cells = append(cells, cell{upstream: u, expectation: e})
			}
		}
	}
	steps := func(cells []cell) (steps []step) {
		for _, cell := range cells {
			steps = append(steps, cell.step)
		}
		return steps
	}
	through := l.run(t, c, gateway, append([]step{listenTo(follows)}, steps(cells)...))
	if through.Version != c.version {
		t.Errorf("negotiated %q, want %q", through.Version, c.version)
	}
	through.Outcomes[0].noError(t)
	for i := range cells {
		cells[i].have = &through.Outcomes[i+1]
	}
	if late != nil { // at the latest when its session ends, the servers learn that the client has left
		after := l.run(t, c, gateway, steps(late))
		for i := range late {
			late[i].have = &after.Outcomes[i]
		}
	}
	for _, u := range upstreams {
		if u.revision != c.version {
			continue
		}
		outcomes := l.runDirect(t, c, u)
		for i := range cells {
			if cells[i].upstream.name == u.name && u.apart(c, cells[i].title) == "" {
				direct := outcomes[cells[i].title]
				cells[i].direct = &direct
			}
		}
	}
	for _, cell := range append(cells, late...) {
		t.Run("server "+cell.name+"/"+cell.title, func(t *testing.T) {
			cell.check(t, *cell.have)
			if cell.direct == nil {
				return
			}
			if diff := cmp.Diff(cell.plain(t, *cell.direct), cell.plain(t, *cell.have)); diff != "" {
				t.Errorf("directly (-) and through the gateway (+):\n%s", diff)
			}
		})
	}
}

// runDirect takes the steps at a server, with the names that it gives its things. It returns the outcomes
// by title.
func (l *lab) runDirect(t *testing.T, c client, u upstream) map[string]outcome {
	t.Helper()
	steps := []step{listenTo([]string{day(c, "direct")})}
	all := slices.DeleteFunc(u.sdkExpectations(c, "direct"), func(e expectation) bool {
		return c.onlyHangsUp() && e.title == reached // several of the servers take hanging up for nothing, rightly
	})
	for _, e := range all {
		text, err := json.Marshal(e.step)
		if err != nil {
			t.Fatal(err)
		}
		var s step
		if err := json.Unmarshal([]byte(u.withoutPrefixes(string(text))), &s); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	r := l.run(t, c, u.url, steps)
	if u.kind == mcpgo { // several of the others do not let clients listen
		r.Outcomes[0].noError(t)
	}
	outcomes := make(map[string]outcome)
	for i, e := range all {
		outcomes[e.title] = r.Outcomes[i+1]
	}
	return outcomes
}

// onlyHangsUp reports whether a client that cancels a call tells no more than that it reads no answer, which
// is no cancellation where the revision has sessions: mcp-go sends none over HTTP.
func (c client) onlyHangsUp() bool { return c.sdk == "mcp-go" && c.version == stateful }

func listenTo(uris []string) step { return step{Method: "listen", Params: object{"uris": uris}} }

func (u upstream) withoutPrefixes(text string) string {
	return strings.NewReplacer(u.tool(""), "", u.uri(""), "").Replace(text)
}

// plain returns an outcome in a form that does not depend on the way. Of the tools that are listed, it has
// those that are the server's from the beginning.
func (u upstream) plain(t *testing.T, o outcome) any {
	t.Helper()
	tools := make(map[string]any)
	for _, raw := range o.Result.Tools {
		name := u.withoutPrefixes(nameOf(t, raw))
		if !strings.Contains(name, "__") && !strings.HasPrefix(name, grown) {
			tools[name] = withoutName(t, raw)
		}
	}
	o.Result.Tools = nil
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(u.withoutPrefixes(string(text))), &v); err != nil {
		t.Fatal(err)
	}
	v["tools"] = tools
	return v
}

// day is the URI of a resource that only one connection follows.
func day(c client, way string) string {
	return "memo://day/" + strings.ReplaceAll(c.name+" "+way, " ", "-")
}

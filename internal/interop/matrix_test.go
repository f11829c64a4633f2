//go:build interop

package interop

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestMatrix is the matrix of internal/e2e for the TypeScript SDKs: every revision that
// they support as a client, with every revision that they support as a server. Over stdio
// it tests only the newest revision of each SDK, because there a server with sessions has a
// process for each client, which takes a second to start.
func TestMatrix(t *testing.T) {
	l := newLab(t)
	upstreams := l.startMatrix(t)
	gateway := l.startGateway(t, upstreams)
	for _, c := range []client{
		{name: "2024-11-05 sse", sdk: "v1", mode: "sse 2024-11-05", version: "2024-11-05"},
		{name: "2024-11-05 http", sdk: "v1", mode: "2024-11-05", version: "2024-11-05"},
		{name: "2025-03-26 http", sdk: "v1", mode: "2025-03-26", version: "2025-03-26"},
		{name: "2025-06-18 http", sdk: "v1", mode: "2025-06-18", version: "2025-06-18"},
		{name: "2025-11-25 http v1", sdk: "v1", mode: "2025-11-25", version: "2025-11-25"},
		{name: "2025-11-25 http v2", sdk: "v2", mode: "legacy", version: "2025-11-25"},
		{name: "2026-07-28 http", sdk: "v2", mode: "2026-07-28", version: "2026-07-28"},
	} {
		t.Run("client "+c.name, func(t *testing.T) {
			t.Parallel()
			url := gateway
			if strings.HasPrefix(c.mode, "sse") {
				url = strings.TrimSuffix(gateway, "/mcp") + "/sse"
			}
			l.tryMatrix(t, c, url, upstreams)
		})
	}
}

// startMatrix starts an HTTP server of each SDK. To the gateway it is a server of each
// revision that the SDK supports.
func (l *lab) startMatrix(t *testing.T) (upstreams []upstream) {
	t.Helper()
	at := func(script, path string) string {
		addr := mcptest.LoopbackAddress(t)
		cmd := exec.Command(l.node.Binary, script, addr)
		cmd.Dir = l.node.Dir
		l.start(t, addr, cmd)
		return "http://" + addr + path
	}
	v1, v2 := at("server-v1.mjs", ""), at("server-v2.mjs", "/mcp")
	add := func(revision, over, script, url string) {
		u := upstream{name: "ts-" + strings.ReplaceAll(revision, "-", "") + "-" + over, kind: typescript,
			revision: revision, url: url}
		if over == "stdio" {
			u.command = []string{l.node.Binary, l.node.File(script), "stdio"}
		}
		upstreams = append(upstreams, u)
	}
	add("2024-11-05", "sse", "", v1+"/sse")
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		add(revision, "http", "", v1+"/mcp")
	}
	add("2025-11-25", "stdio", "server-v1.mjs", "")
	add("2026-07-28", "http", "", v2)
	add("2026-07-28", "stdio", "server-v2.mjs", "")
	return upstreams
}

// tryMatrix performs all steps at all upstreams on one connection of a client.
func (l *lab) tryMatrix(t *testing.T, c client, url string, upstreams []upstream) {
	type cell struct {
		server string
		expectation
	}
	var cells []cell
	var steps []step
	for _, u := range upstreams {
		for _, e := range u.typescript(c) {
			cells, steps = append(cells, cell{u.name, e}), append(steps, e.step)
		}
	}
	r := l.run(t, c, url, steps)
	if r.Version != c.version {
		t.Errorf("negotiated %q, want %q", r.Version, c.version)
	}
	for i, e := range cells {
		t.Run("server "+e.server+"/"+e.title, func(t *testing.T) { e.check(t, r.Outcomes[i]) })
	}
}

// typescript returns the steps at a server of internal/interop/server.
func (u upstream) typescript(c client) []expectation {
	confirm := wantText("accept Ada")
	if c.version < "2025-06-18" || u.revision < "2025-06-18" { // there is no elicitation
		confirm = func(t *testing.T, o outcome) {
			if o.Error == nil && !o.Result.IsError {
				t.Errorf("the answer is %+v, want an error", o.Result)
			}
		}
	}
	return append(u.memos(), []expectation{
		{"lists", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, raw := range o.Result.Tools {
				have = append(have, nameOf(t, raw))
			}
			containsAll(t, have, []string{u.tool("echo"), u.tool("count"), u.tool("confirm"), u.tool("sample"), u.tool("roots")})
		}},
		{"call", callTool(u.tool("echo"), object{"text": "grüße"}), func(t *testing.T, o outcome) {
			if c.version >= "2025-06-18" {
				wantText("grüße")(t, o)
				if got := string(o.Result.StructuredContent); got != `{"length":5}` {
					t.Errorf("structured content is %s", got)
				}
				return
			}
			o.noError(t) // without structured content a text has it
			if c := o.Result.Content; len(c) != 2 || c[0].Text != "grüße" || c[1].Text != `{"length":5}` ||
				o.Result.StructuredContent != nil {
				t.Errorf("the answer is %+v", o.Result)
			}
		}},
		{"progress", progress(callTool(u.tool("count"), object{"to": 3})), wantProgress(c, 3, "counted to 3")},
		{"elicitation", callTool(u.tool("confirm"), nil), confirm},
		{"sampling", callTool(u.tool("sample"), nil), wantText("sampled")},
		{"roots", callTool(u.tool("roots"), nil), wantText("files")},
	}...)
}

// memos returns the steps that read: the memos of such a server, its prompt and its completion.
func (u upstream) memos() []expectation {
	return []expectation{
		{"read", readResource(u.uri("memo://today")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("memo://today"), "nothing to do")
		}},
		{"read by template", readResource(u.uri("memo://day/monday")), func(t *testing.T, o outcome) {
			o.wantContents(t, u.uri("memo://day/monday"), "memo of monday")
		}},
		{"prompt", getPrompt(u.tool("review"), object{"code": "x = 1"}), wantMessage("Please review: x = 1")},
		{"complete", step{Method: "completion/complete", Params: object{
			"ref": object{"type": "ref/prompt", "name": u.tool("review")}, "argument": object{"name": "code", "value": "x"},
		}}, wantValues("x!")},
		{"unknown resource", readResource(u.uri("memo://nothing")), func(t *testing.T, o outcome) {
			if o.Error == nil {
				t.Error("no error")
			}
		}},
	}
}

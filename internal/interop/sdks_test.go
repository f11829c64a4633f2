//go:build interop

package interop

import (
	"fmt"
	"hash/crc32"
	"testing"
)

// grown begins the names of tools that are made while the test runs.
const grown = "grown-"

// reached is the title of the step that asks a server whether a call was cancelled.
const reached = "cancel reached the server"

// sdkExpectations returns the steps at a server of an SDK, and what has to come of them through the gateway.
func (u upstream) sdkExpectations(c client, way string) []expectation {
	followed := day(c, way)
	c.name += " " + way
	switch u.kind {
	case typescript:
		return u.typescript(c)
	case python:
		return u.python(c)
	}
	name := c.name + " at " + u.name
	id, another := object{"name": name}, fmt.Sprintf("%s%x", grown, crc32.ChecksumIEEE([]byte(name)))
	all := []expectation{
		{"lists", step{Method: "tools/list"}, func(t *testing.T, o outcome) {
			o.noError(t)
			var have []string
			for _, raw := range o.Result.Tools {
				have = append(have, nameOf(t, raw))
			}
			containsAll(t, have, []string{u.tool("echo"), u.tool("count"), u.tool("confirm"), u.tool("sample"), u.tool("roots")})
		}},
		{"call", callTool(u.tool("echo"), object{"text": "grüße"}), wantText("grüße")},
		{"progress", progress(callTool(u.tool("count"), object{"to": 3})), u.wantProgress(c, 3, "counted to 3")},
		{"elicitation", callTool(u.tool("confirm"), nil), wantText("accept Ada")},
		{"sampling", callTool(u.tool("sample"), nil), wantText("sampled")},
		{"roots", callTool(u.tool("roots"), nil), wantText("files")},
		{"log level", step{Method: "logging/setLevel", Params: object{"level": "info"}}, func(t *testing.T, o outcome) {
			o.noError(t)
		}},
		{"log", awaiting(callTool(u.tool("log"), object{"text": name}), "notifications/message", name), wantNotice("logged")},
		{"cancel", cancelled(callTool(u.tool("hang"), id)), wantCancelled},
		{reached, callTool(u.tool("cancelled"), id), wantText("yes")},
		{"list changed", listing(callTool(u.tool("grow"), object{"name": another}), u.tool(another)), wantNotice("grown")},
	}
	all = append(all, u.memos()...)
	if u.kind == mcpgo && u.revision == stateful { // the others tell of no updates, to any client
		all = append(all, expectation{"update", awaiting(callTool(u.tool("touch"), object{"uri": followed}),
			"notifications/resources/updated", u.uri(followed)), wantNotice("touched")})
	}
	if u.revision == stateful { // 2026-07-28 has no streams that go on
		went := "went on"
		if u.kind == mcpgo {
			went = "accept and went on"
		}
		all = append(all, expectation{"resumption", callTool(u.tool("pause"), nil), wantText(went)})
	}
	return all
}

// apart says why the outcome of a step is not what it is directly; "" where it has to be.
func (u upstream) apart(c client, title string) string {
	switch sessions := u.kind == mcpgo && u.revision == stateful; {
	case title == "progress" && sessions:
		return "the server chooses between two streams: see wantProgress"
	case title == "resumption" && sessions && c.sdk == "mcp-go":
		return "mcp-go goes on where a stream ends, and gives up where it breaks off; the gateway goes on"
	case title == "unknown resource" && u.kind == fastmcp && u.revision == stateful:
		return "FastMCP has the code of 2026-07-28 in all revisions; the gateway has that of the client's revision"
	}
	return ""
}

func awaiting(s step, notification, about string) step {
	s.Await, s.About = notification, about
	return s
}

func listing(s step, tool string) step {
	s.Listed = tool
	return s
}

func wantNotice(text string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		wantText(text)(t, o)
		if !o.Noticed {
			t.Error("the notification has not come")
		}
	}
}

// wantProgress is lenient with mcp-go's server, whose events take the stream of the call or the session's,
// as it happens: those of the latter may come after the answer, and out of order.
func (u upstream) wantProgress(c client, n int, text string) func(*testing.T, outcome) {
	if u.kind != mcpgo || u.revision != stateful {
		return wantProgress(c, n, text)
	}
	return func(t *testing.T, o outcome) {
		wantText(text)(t, o)
		seen := map[float64]bool{}
		for _, p := range o.Progress {
			if seen[p.Progress] || p.Progress > float64(n) || p.Total != float64(n) {
				t.Errorf("progress is %v", o.Progress)
			}
			seen[p.Progress] = true
		}
	}
}

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestRequestsThatSayTwoThings sends requests that name an allowed tool to one reader and a
// denied tool to another.
func TestRequestsThatSayTwoThings(t *testing.T) {
	t.Parallel()
	eachSecretPair(t, func(t *testing.T, c *mcptest.Client, up, _ *mcptest.Server) {
		calls := len(up.Received("tools/call"))
		for _, a := range []struct{ row, method, header, params string }{
			{"a name twice", "tools/call", "up__open", `"name":"up__open","name":"up__secret"`},
			{"a name twice, once escaped", "tools/call", "up__open", `"name":"up__open","n\u0061me":"up__secret"`},
			{"a name in another case too", "tools/call", "up__open", `"name":"up__open","Name":"up__secret"`},
			{"a URI twice, once escaped", "resources/read", "up+file:///docs/open",
				`"uri":"up+file:///docs/open","ur\u0069":"up+file:///docs/secret"`},
			{"a reference of two types", "completion/complete", "",
				`"ref":{"type":"ref/prompt","type":"ref/resource","name":"up__open","uri":"up+doc:///secret/{id}"},"argument":{"name":"a","value":"b"}`},
			{"a reference twice", "completion/complete", "",
				`"ref":{"type":"ref/prompt","name":"up__open"},"ref":{"type":"ref/prompt","name":"up__secret"},"argument":{"name":"a","value":"b"}`},
			{"another name in the header", "tools/call", "up__open", `"name":"up__secret"`},
			{"another method in the header", "tools/list", "", `"name":"up__secret"`},
		} {
			method, header := a.method, http.Header{}
			params := a.params
			if a.method == "tools/list" {
				method = "tools/call"
			}
			if !c.Revision.Stateful {
				params = fmt.Sprintf(`"_meta":{%q:%q,%q:{}},`, wire.MetaVersion, c.Revision.Name, wire.MetaClientCaps) + params
				header.Set("Mcp-Method", a.method)
				if a.header != "" {
					header.Set("Mcp-Name", a.header)
				}
			}
			got := wholeAnswer(t, c, "POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params),
				header)
			if !strings.Contains(got, `"error":{"code":-32`) {
				t.Errorf("%s: %s", a.row, got)
			}
		}
		if got := len(up.Received("tools/call")); got != calls {
			t.Errorf("%d calls reached the server", got-calls)
		}
	})
}

// TestABatchIsJudgedByItsMembers: an allowed member does not let a denied one through.
func TestABatchIsJudgedByItsMembers(t *testing.T) {
	up, hidden := secretive(t, statefulServer), secretive(t, statefulServer)
	g := guard(t, gateway.Config{
		Policy:    secrecy(),
		Upstreams: []upstream.Config{{Name: "up", URL: up.URL}, {Name: "hidden", URL: hidden.URL}},
	})
	c := g.raw(t, "2025-03-26", g.issuer.Token(nil))
	got := wholeAnswer(t, c, "POST", `[
		{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"up__secret"}},
		{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"up__open"}},
		{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hidden__open"}},
		{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"up+file:///docs/secret"}},
		{"jsonrpc":"2.0","id":5,"method":"tools/list"}]`, nil)
	for _, want := range []string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: up__secret","data":{"error_code":"GH-NOT-FOUND"}}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"ran open"}]}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"Unknown tool: hidden__open","data":{"error_code":"GH-NOT-FOUND"}}}`,
		`{"jsonrpc":"2.0","id":4,"error":{"code":-32002,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if n := strings.Count(got, `"inputSchema"`); n != 1 {
		t.Errorf("the list has %d tools: %s", n, got)
	}
	if calls := len(up.Received("tools/call")) + len(up.Received("resources/read")) + len(hidden.Received("tools/call")); calls != 1 {
		t.Errorf("%d calls reached servers", calls)
	}
	present(c, "")
	if got := wholeAnswer(t, c, "POST", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`,
		nil); !strings.HasPrefix(got, "401\n") {
		t.Errorf("without a token: %s", got)
	}
}

// TestACursorIsItsUsers uses a user's cursor as other users.
func TestACursorIsItsUsers(t *testing.T) {
	t.Parallel()
	const each, many = 1500, 3000 // more than a page, of two servers
	var tools []string
	for i := range each {
		tools = append(tools, fmt.Sprintf("tool-%04d", i))
	}
	s, other := scripted(t, stateless), scripted(t, stateless)
	s.Tools(tools...)
	other.Tools(tools...)
	g := guard(t, gateway.Config{
		Policy: policy.Config{Rules: []policy.Rule{
			{Name: "all", Who: policy.Who{Users: []string{"alice", "bob"}}, Allow: []string{"tools:*"}},
			{Name: "some", Who: policy.Who{Users: []string{"carol"}}, Allow: []string{"tools:up/tool-1499"}},
		}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}, {Name: "up2", URL: other.URL}},
	})
	for _, revision := range eras {
		alice := g.raw(t, revision, g.issuer.Token(nil))
		page := mustCall(t, alice, "tools/list", "")
		var cursor string
		if !page.Value("nextCursor", &cursor) || len(names(t, page, "tools")) >= many {
			t.Fatalf("%s: no second page in %.200s", revision, page.Text)
		}
		rest := fmt.Sprintf(`{"cursor":%q}`, cursor)
		for who, token := range map[string]string{
			"bob, who may see the same": g.issuer.Token(claims{"sub": "bob"}),
			"carol, who may not":        g.issuer.Token(claims{"sub": "carol"}),
		} {
			m, _, err := g.raw(t, revision, token).Call(deadline(t), "tools/list", rest)
			if err != nil || m.Error == nil || m.Error.Code != -32602 {
				t.Errorf("%s: %s: %.200s, %v", revision, who, m.Text, err)
			}
		}
		whole := append(names(t, page, "tools"), names(t, mustCall(t, alice, "tools/list", rest), "tools")...)
		if len(whole) != many || !slices.IsSorted(whole[:each]) || !slices.IsSorted(whole[each:]) {
			t.Errorf("%s: her two pages have %d tools", revision, len(whole))
		}
		carol := g.connect(t, revision, g.issuer.Token(claims{"sub": "carol"}))
		if got := listTools(t, carol); !slices.Equal(got, []string{"up__tool-1499"}) {
			t.Errorf("%s: carol sees %q", revision, got)
		}
	}
}

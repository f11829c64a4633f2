package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// newVault is a server that accepts any request: the tool "wipe" with force in any form,
// and any URI. The tool "links" answers with links to another server's resource, with oddly
// written members.
func newVault(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	s := mcptest.NewServer(wire.Lookup(revision))
	t.Cleanup(s.Close)
	s.Offers(`{"tools":{},"resources":{}}`)
	s.On("tools/list", func(c *mcptest.Call) {
		c.Result(`{"tools":[
			{"name":"wipe","inputSchema":{"type":"object","properties":{"force":{"type":"boolean"}}}},
			{"name":"wipe_untyped","inputSchema":{"type":"object"}},
			{"name":"links","inputSchema":{"type":"object"}}]}`)
	})
	s.On("tools/call", func(c *mcptest.Call) {
		var name string
		if c.Param("name", &name); name != "links" {
			c.Text("wiped")
			return
		}
		c.Result(`{"content":[
			{"type":"resource_link","name":"a","\u0075ri":"up+test://r"},
			{"type":"text","text":"b","type":"resource_link","name":"b","uri":"up+test://r"},
			{"type":"resource_link","name":"c","uri":"x://y","ur\u0069":"up+test://r"}]}`)
	})
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"name":"o","uri":"file:///open/o.txt"}]}`) })
	s.On("resources/read", func(c *mcptest.Call) {
		var uri string
		c.Param("uri", &uri)
		c.Result(fmt.Sprintf(`{"contents":[{"uri":%q,"text":"read"}]}`, uri))
	})
	return s
}

// TestSiegeOfPolicy: no spelling gets anything that policy denies to a server, and no
// spelling of a link lets a server point at another server's resource.
func TestSiegeOfPolicy(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	for _, revision := range []string{serverRev, statelessRev} {
		t.Run("server "+revision, func(t *testing.T) {
			up, vault := newWorker(t, revision), newVault(t, revision)
			s := besiegeWith(t, siegeConfig{
				policy: `{default: allow, rules: [{name: no force, deny: ["tools:vault/wipe*"], when: "has(args.force) && args.force == true"}, ` +
					`{name: private, deny: ["resources:vault/file:///private/*"]}, {name: asks in vain, ask: ["tools:vault/wipe*"], who: {users: [carol]}}]}`,
				rest: fmt.Sprintf("upstreams:\n- {name: up, url: %q}\n- {name: vault, url: %q}\n", up.URL, vault.URL),
			}, "up", "vault")
			s.undisturbed(t, "up__echo", func() {
				for _, era := range []string{clientRev, statelessRev} {
					besiegePolicy(t, s.as(t, "alice", era, "{}"), vault)
				}
			})
		})
	}
}

func besiegePolicy(t *testing.T, alice *mcptest.Client, vault *mcptest.Server) {
	t.Helper()
	call := func(method, params string) mcptest.Message {
		t.Helper()
		m, _, err := alice.Call(deadline(t), method, params)
		if err != nil {
			t.Fatalf("%s %s: %v", method, params, err)
		}
		return m
	}
	began := len(vault.Received("tools/call"))
	for _, tool := range []string{"vault__wipe", "vault__wipe_untyped"} {
		for _, force := range []string{`true`, `"true"`, `1`, `[true]`, `{"force":true}`} {
			m := call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"force":%s}}`, tool, force))
			if m.Error == nil || !strings.Contains(m.Error.Message, "Not allowed with these arguments: "+tool) {
				t.Errorf("%s with force %s: %s", tool, force, m.Text)
			}
		}
	}
	if n := len(vault.Received("tools/call")) - began; n > 0 {
		t.Errorf("%d calls with force got to the server", n)
	}
	if m := call("tools/call", `{"name":"vault__wipe","arguments":{"force":false}}`); textOf(m) != "wiped" {
		t.Errorf("without force: %s", m.Text)
	}
	for _, uri := range []string{
		"file:///private/p.txt", "file://127.0.0.1/private/p.txt", "file://any.example/private/p.txt", "file://private/p.txt",
		"file:///PRIVATE/p.txt", "FILE:/private/P.TXT/",
		"file:///ｐrivate/p.txt", "file:///open/．．/private/p.txt", "file:///open/‥/private/p.txt",
		"file:///pri\u00advate/p.txt", "file:///prıvate/p.txt", "file:///private%2Fp.txt",
	} {
		if m := call("resources/read", fmt.Sprintf(`{"uri":%q}`, "vault+"+uri)); m.Error == nil {
			t.Errorf("%s: %s", uri, m.Text)
		}
	}
	for _, r := range vault.Received("resources/read") {
		if !strings.Contains(r.Text, `"file:///open/o.txt"`) {
			t.Errorf("the server was asked for %s", r.Text)
		}
	}
	if m := call("resources/read", `{"uri":"vault+file:///open/o.txt"}`); m.Error != nil {
		t.Errorf("what is open: %s", m.Text)
	}
	m := call("tools/call", `{"name":"vault__links"}`)
	if links := strings.Count(string(m.Result), `"vault+up+test://r"`); links != 3 ||
		strings.Contains(string(m.Result), `"up+test://r"`) {
		t.Errorf("links to another server's resource are marked %d times: %s", links, m.Result)
	}
}

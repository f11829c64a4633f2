package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// talkative is a scripted server with long instructions: sentences that name the server.
func talkative(t *testing.T, revision, name string) *mcptest.Server {
	s := scripted(t, revision)
	text := strings.Repeat("This is what "+name+" says. ", 200)
	s.On("server/discover", func(c *mcptest.Call) {
		c.Result(fmt.Sprintf(`{"supportedVersions":[%q],"capabilities":{"tools":{}},"instructions":%q}`, revision, text))
	})
	if revision != stateless {
		s.On("server/discover", func(c *mcptest.Call) { c.Error(-32601, "Method not found") })
		s.On("initialize", func(c *mcptest.Call) {
			c.Result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":%q}`, revision, text))
		})
	}
	return s
}

// TestInstructionsThatAreCut: a client that cuts instructions at 2 KB has read the operator's, what
// it needs for tools in short form, and the beginning of each server's. A client that reads on
// misses nothing.
func TestInstructionsThatAreCut(t *testing.T) {
	crm, wiki := talkative(t, statefulServer, "crm"), talkative(t, stateless, "wiki")
	for _, mode := range []string{disclosure.ModeFull, disclosure.ModeProgressive} {
		url := start(t, gateway.Config{
			Naming:     catalog.Config{Instructions: "Ask crm first."},
			Disclosure: config.Disclosure{Config: disclosure.Config{Mode: mode}},
			Upstreams:  []upstream.Config{{Name: "crm", URL: crm.URL}, {Name: "wiki", URL: wiki.URL}},
		})
		for _, revision := range eras {
			t.Run("client "+revision+" mode "+mode, func(t *testing.T) {
				about := connect(t, url, revision).InitializeResult().Instructions
				read := about[:min(len(about), 2000)]
				if !strings.HasPrefix(read, "Ask crm first.\n\n") ||
					strings.Contains(read, "TOOL_DESCRIPTION_REQUIRED") != (mode == disclosure.ModeProgressive) {
					t.Errorf("the first 2,000 bytes are %q", read)
				}
				for _, server := range []string{"crm", "wiki"} {
					sentence := "This is what " + server + " says."
					if n := strings.Count(read, sentence); n < 10 {
						t.Errorf("the first 2,000 bytes have %d sentences of %s: %q", n, server, read)
					}
					if n := strings.Count(about, sentence); n != 200 {
						t.Errorf("there are %d sentences of %s", n, server)
					}
				}
			})
		}
	}
}

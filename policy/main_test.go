package policy

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// newForTest makes a policy that has to be valid.
func newForTest(t testing.TB, cfg Config) *Policy {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tool(upstream, name string) mcp.Target {
	return mcp.Target{Kind: mcp.KindTools, Upstream: upstream, Name: name}
}

func resource(upstream, uri string) mcp.Target {
	return mcp.Target{Kind: mcp.KindResources, Upstream: upstream, Name: uri}
}

// user is a caller of some groups.
func user(name string, groups ...string) mcp.Caller {
	return mcp.NewCaller(mcp.Caller{Issuer: "https://login.example.com", Subject: name, ClientID: "cli", Groups: groups})
}

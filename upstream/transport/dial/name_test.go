package dial_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestNameOfAnUpstream: what a client is told about a server whose name leads to
// the metadata service of a cloud. Nothing is sent there.
func TestNameOfAnUpstream(t *testing.T) {
	was := net.DefaultResolver
	net.DefaultResolver = mcptest.Resolver(func() netip.Addr { return netip.MustParseAddr("fd00:ec2::254") })
	t.Cleanup(func() { net.DefaultResolver = was }) // after the upstream is closed
	cfg := upstream.Config{URL: "http://crm.example/mcp", AllowPlaintext: true}
	u := fake.StartOver(t, cfg, upstream.NewTransport(nil, cfg))
	_, err := fake.Do(t, u, fake.Tool("a"))
	e := fake.WantError(t, err, mcp.CodeUpstreamUnreachable, mcp.ExecutedNo)
	if !strings.Contains(e.Message, "its name leads to an address that is refused") ||
		strings.Contains(e.Message, "fd00") {
		t.Errorf("the client hears %q", e.Message)
	}
}

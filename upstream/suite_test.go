package upstream_test

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	atURL := func(_ *testing.T, s *mcptest.Server) upstream.Config { return upstream.Config{URL: s.URL} }
	for _, era := range []struct {
		name     string
		revision *wire.Revision
	}{{"stateful", wire.NewestStateful()}, {"stateless", wire.Stateless()}} {
		t.Run("streamable "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.revision, mcptest.NewServer, atURL)
		})
		t.Run("streamable by the standard client "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.revision, mcptest.NewServer, func(_ *testing.T, s *mcptest.Server) upstream.Config {
				return upstream.Config{URL: s.URL, HTTPClient: "standard"}
			})
		})
		t.Run("streamable over HTTP/2 "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.revision, mcptest.NewServer, func(t *testing.T, s *mcptest.Server) upstream.Config {
				return upstream.Config{URL: fake.NewHTTP2(t, s).URL}
			})
		})
		t.Run("stdio "+era.name, func(t *testing.T) {
			t.Parallel()
			upstreamtest.Run(t, era.revision, mcptest.NewServer, func(t *testing.T, s *mcptest.Server) upstream.Config {
				address, err := s.ListenLines()
				if err != nil {
					t.Fatal(err)
				}
				cfg := fake.Command(t, "carries lines")
				cfg.Env["ADDRESS"] = mcp.Secret(address)
				return cfg
			})
		})
	}
	t.Run("HTTP+SSE", func(t *testing.T) {
		t.Parallel()
		upstreamtest.Run(t, wire.NewestStateful(), mcptest.NewSSEServer,
			func(_ *testing.T, s *mcptest.Server) upstream.Config {
				return upstream.Config{URL: s.URL, Transport: "sse"}
			})
	})
	t.Run("HTTP+SSE, found out", func(t *testing.T) {
		t.Parallel()
		upstreamtest.Run(t, wire.NewestStateful(), mcptest.NewSSEServer, atURL)
	})
}

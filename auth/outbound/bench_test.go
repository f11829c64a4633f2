package outbound

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// BenchmarkAuthorize is what a call costs whose token is in the cache.
func BenchmarkAuthorize(b *testing.B) {
	for _, kind := range []string{TypeBearer, TypeClientCredentials, TypeTokenExchange} {
		b.Run(kind, func(b *testing.B) {
			cfg := Config{Type: kind, TokenURL: "https://login.example.com/token", ClientID: "g", ClientSecret: "s"}
			switch kind {
			case TypeBearer:
				cfg = Config{Type: kind, Token: "x"}
			case TypeTokenExchange:
				cfg.Issuer = issuerURL
			}
			c, err := New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Upstream: "crm", URL: upstreamURL})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			who := mcp.NewCaller(mcp.Caller{Issuer: issuerURL, Subject: "alice", Token: mcp.Secret(strings.Repeat("x", 1000))})
			if c.endpoint != nil {
				src, err := c.sourceFor(who)
				if err != nil {
					b.Fatal(err)
				}
				src.token = &token{value: "Bearer x", renew: time.Now().Add(time.Hour), dead: time.Now().Add(time.Hour)}
			}
			h := http.Header{}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Authorize(b.Context(), who, h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package trial

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestCertificatesOfIssuers: one that works shows its certificate, one that does not says which authority is missing.
func TestCertificatesOfIssuers(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{TLS: true})
	defer issuer.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Server().Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]egress.TLS{"works": {CAFile: ca}, "lacks its authority": {}} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Config{PublicURL: "https://gateway.example/mcp",
				Auth: auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL, TLS: files}}}}
			reports, err := Backends(t.Context(), cfg)
			if err != nil || len(reports) != 1 {
				t.Fatalf("%+v, error %v", reports, err)
			}
			r, works := reports[0], files != egress.TLS{}
			if works != (r.Error == "") || works != strings.HasPrefix(r.Certificate, `of "example.com" (until `) ||
				works == strings.Contains(r.Error, "belongs into tls.ca_file") {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestClientsOfIssuers: where clients sign in at the gateway's own server, those of the issuer do not matter.
func TestClientsOfIssuers(t *testing.T) {
	issuer := mcptest.NewIssuer(mcptest.IssuerOptions{})
	defer issuer.Close()
	cfg := config.Config{PublicURL: "https://gateway.example/mcp",
		Auth: auth.Config{Mode: auth.ModeOAuth, Issuers: []auth.Issuer{{URL: issuer.URL}}}}
	for _, own := range []bool{false, true} {
		cfg.Auth.Server = auth.ServerConfig{Enabled: own, ClientID: "gatehouse",
			Registration: clientele.Registration{DCR: clientele.DCR{Enabled: own}}}
		reports, err := checkIssuers(t.Context(), cfg)
		if err != nil || len(reports) != 1 || own != (len(reports[0].Clients) == 0) {
			t.Errorf("with a server of its own %v: %+v, error %v", own, reports, err)
		}
	}
}

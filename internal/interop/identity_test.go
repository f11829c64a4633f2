package interop

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// TestIdentityProviders loads the YAML of docs/identity-providers.md: its first block
// is a whole configuration, each other one is a section auth that can stand in it.
func TestIdentityProviders(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(checkout.Path("docs", "identity-providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	var whole string
	var titles []string
	for section := range strings.SplitSeq(string(page), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
			text := block[1]
			if whole == "" {
				whole = text
			} else {
				text = regexp.MustCompile(`(?ms)^auth:\n.*?^\n`).ReplaceAllLiteralString(whole, text+"\n")
			}
			titles = append(titles, title)
			t.Run(title, func(t *testing.T) {
				cfg, warnings, err := gateway.ParseConfig("gatehouse.yaml", []byte(text))
				if err != nil || len(warnings) > 0 {
					t.Fatalf("%v\n%v\n%s", err, warnings, text)
				}
				if !strings.Contains(text, block[1]) || cfg.Auth.Mode != auth.ModeOAuth || len(cfg.Auth.Issuers) != 1 {
					t.Errorf("this is not what the page shows:\n%s", text)
				}
			})
		}
	}
	if want := []string{"The same for all", "Keycloak", "Microsoft Entra ID", "Okta", "Auth0"}; !slices.Equal(titles, want) {
		t.Errorf("there is YAML under %q, want %q", titles, want)
	}
}

// TestPutItOnANetwork loads the lines that the README puts in front of its upstreams.
func TestPutItOnANetwork(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(checkout.Path("README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d blocks of YAML, want its upstreams and the lines for a network", len(blocks))
	}
	_, upstreams, _ := strings.Cut(blocks[0][1], "\nupstreams:")
	text := blocks[1][1] + "upstreams:" + upstreams
	cfg, warnings, err := gateway.ParseConfig("gatehouse.yaml", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v\n%v\n%s", err, warnings, text)
	}
	if cfg.Auth.Mode != auth.ModeOAuth || len(cfg.Upstreams) == 0 {
		t.Errorf("this is not what the README shows:\n%s", text)
	}
}

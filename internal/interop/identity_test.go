package interop

import (
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
)

// TestIdentityProviders loads the YAML of docs/identity-providers.md.
func TestIdentityProviders(t *testing.T) {
	t.Setenv("OAUTH_CLIENT_SECRET", "a secret of the gateway at the provider")
	var titles []string
	for title, text := range pageConfigs(t) {
		titles = append(titles, title)
		t.Run(title, func(t *testing.T) {
			cfg, warnings, err := config.Parse("gatehouse.yaml", []byte(text))
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v\n%v\n%s", err, warnings, text)
			}
			if cfg.Auth.Mode != auth.ModeOAuth || len(cfg.Auth.Issuers) != 1 {
				t.Errorf("this is not what the page shows:\n%s", text)
			}
		})
	}
	if want := []string{"The same for all", "With the gateway's own authorization server", "Keycloak",
		"Microsoft Entra ID", "Okta", "Auth0", "Workloads", "Workloads"}; !slices.Equal(titles, want) {
		t.Errorf("there is YAML under %q, want %q", titles, want)
	}
}

// pageConfigs returns the configurations of docs/identity-providers.md by their headings.
// The first block is a complete configuration; each other block replaces its section auth.
func pageConfigs(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	return func(yield func(title, text string) bool) {
		whole := ""
		for section := range strings.SplitSeq(readPage(t, "docs", "identity-providers.md"), "\n## ") {
			title, _, _ := strings.Cut(section, "\n")
			for _, block := range yamlBlocks(section) {
				text := block
				if whole == "" {
					whole = block
				} else {
					text = regexp.MustCompile(`(?ms)^auth:\n.*?^\n`).ReplaceAllLiteralString(whole, block+"\n")
					if !strings.Contains(text, block) {
						t.Fatalf("the first block has no section auth with an empty line after it:\n%s", whole)
					}
				}
				if !yield(title, text) {
					return
				}
			}
		}
	}
}

// TestPutItOnANetwork loads the lines that docs/network.md adds above its upstreams.
func TestPutItOnANetwork(t *testing.T) {
	blocks := yamlBlocks(readPage(t, "docs", "network.md"))
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of YAML, want its upstreams and the lines for a network", len(blocks))
	}
	_, upstreams, _ := strings.Cut(blocks[0], "\nupstreams:")
	text := blocks[1] + "upstreams:" + upstreams
	cfg, warnings, err := config.Parse("gatehouse.yaml", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v\n%v\n%s", err, warnings, text)
	}
	if cfg.Auth.Mode != auth.ModeOAuth || len(cfg.Upstreams) == 0 {
		t.Errorf("this is not what the page shows:\n%s", text)
	}
}

func readPage(t *testing.T, elem ...string) string {
	t.Helper()
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(checkout.Path(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// yamlBlocks returns the blocks of YAML that begin at the left margin.
func yamlBlocks(page string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n([a-z].*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

package interop

import (
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/session"
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

// TestPutItOnANetwork loads the lines that the README adds above its upstreams.
func TestPutItOnANetwork(t *testing.T) {
	blocks := yamlBlocks(readPage(t, "README.md"))
	if len(blocks) != 4 {
		t.Fatalf("the README has %d blocks of YAML, want its upstreams, the lines for a network, a view, and the lines for several replicas", len(blocks))
	}
	_, upstreams, _ := strings.Cut(blocks[0], "\nupstreams:")
	text := blocks[1] + blocks[2] + "upstreams:" + upstreams
	cfg, warnings, err := config.Parse("gatehouse.yaml", []byte(text))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v\n%v\n%s", err, warnings, text)
	}
	if cfg.Auth.Mode != auth.ModeOAuth || len(cfg.Upstreams) == 0 {
		t.Errorf("this is not what the README shows:\n%s", text)
	}
	t.Setenv("ADDRESS", "10.0.0.11")
	secrets := t.TempDir()
	for name, secret := range map[string]string{
		"redis-url": "redis://127.0.0.1:6379",
		"key":       "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(blocks[3], "/run/secrets", secrets) + text
	cfg, warnings, err = config.Parse("gatehouse.yaml", []byte(text))
	if err != nil || len(warnings) > 0 || cfg.Sessions.Store != session.StoreRedis {
		t.Errorf("%v\n%v\n%s", err, warnings, text)
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

package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPolicyPage: the examples on the page about policy are valid.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples found", len(blocks))
	}
	for _, block := range blocks {
		text := block[1] + "upstreams:\n"
		if strings.Contains(text, "who:") && strings.Contains(text, "policy:") && !strings.Contains(text, "auth:") {
			text = "auth: {mode: oauth, issuers: [{url: \"https://login.example.com\"}]}\npublic_url: https://mcp.example.com/mcp\n" + text
		}
		for _, name := range []string{"github", "prod-db", "wiki", "crm"} {
			text += fmt.Sprintf("- {name: %s, url: https://%s.example.com/mcp}\n", name, name)
		}
		if _, warnings, err := Parse("policy.md", []byte(text)); err != nil || len(warnings) > 0 {
			t.Errorf("%s\n%v %v", block[1], err, warnings)
		}
	}
}

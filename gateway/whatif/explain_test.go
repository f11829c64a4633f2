package whatif

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
)

// TestExplainTarget: what a name refers to, as far as the configuration alone tells.
func TestExplainTarget(t *testing.T) {
	cfg, _, err := config.Parse("c.yaml", []byte(`
upstreams:
- {name: crm, url: https://crm.example.com/mcp}
- {name: crm-test, url: https://test.example.com/mcp, prefix: "crm__test_"}
- {name: files, url: https://files.example.com/mcp, prefix: ""}
- {name: old, url: https://old.example.com/mcp, enabled: false}
`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ method, name, want, note string }{
		{"tools/call", "crm__export", "tools:crm/export", ""},
		{"tools/call", "crm__test_export", "tools:crm-test/export", ""},
		{"tools/call", "crm__", "tools:files/crm__", ""},
		{"tools/call", "export", "tools:files/export", ""},
		{"tools/call", "old__x", "tools:files/old__x", ""},
		{"tools/call", "crm/export", "tools:crm/export", ""},
		{"tools/call", "tools:old/x", "tools:old/x", ""},
		{"prompts/get", "crm__a_b_c0ffee", "prompts:crm/a_b_c0ffee", "give it as prompts:crm/NAME"},
		{"prompts/get", "prompts:crm/a_b_c0ffee", "prompts:crm/a_b_c0ffee", ""},
		{"prompts/get", "a/b", "prompts:files/a/b", ""},
		{"resources/read", "crm+file:///a/b", "resources:crm/file:///a/b", ""},
		{"resources/read", "ui://crm-test/a/b", "resources:crm-test/ui://a/b", ""},
		{"resources/read", "skill://crm/a/b", "resources:crm/skill://a/b", "decided on as that skill"},
		{"skills/get", "crm__refunds", "skills:crm/refunds", ""},
		{"skills/get", "crm/acme/refunds", "skills:crm/acme/refunds", ""},
		{"skills/get", "skill://crm/acme/refunds/SKILL.md",
			"skills:crm/acme/refunds (its file skill://acme/refunds/SKILL.md)", ""},
		{"resources/read", "ui://other/a", "resources:files/ui://other/a", ""},
		{"resources/read", "file:///a+b", "resources:files/file:///a+b", ""},
		{"resources/read", "resources:crm/file:///a", "resources:crm/file:///a", ""},
		{"resources/read", "old+x://y", "resources:files/old+x://y", ""},
	}
	for _, tt := range tests {
		target, notes, err := targetOf(cfg, admin.Question{Method: tt.method, Name: tt.name})
		if got := target.String(); err != nil || got != tt.want {
			t.Errorf("%s %s: got %s, %v, want %s", tt.method, tt.name, got, err, tt.want)
		}
		if note := strings.Join(notes, " "); (note == "") != (tt.note == "") || !strings.Contains(note, tt.note) {
			t.Errorf("%s %s: noted %q", tt.method, tt.name, note)
		}
	}
	for _, q := range []admin.Question{{Method: "tools/list", Name: "x"}, {Method: "tools/call", Name: "prompts:crm/x"},
		{Method: "tools/call", Name: "tools:other/x"}, {Method: "tools/call", Name: ""}} {
		if target, _, err := targetOf(cfg, q); err == nil {
			t.Errorf("%+v: got %s", q, target)
		}
	}
}

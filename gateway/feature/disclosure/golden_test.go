package disclosure

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden compares every payload that clients see with a golden file. JSON inside a text
// is expanded.
func TestGolden(t *testing.T) {
	items := func(items []mcp.Item) string {
		out := mcp.Raw{'['}
		for i, item := range items {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, item.Raw...)
		}
		return string(append(out, ']'))
	}
	tests := []struct {
		file string
		say  func(t *testing.T, r *rig) string
	}{
		{"tools_list", func(t *testing.T, r *rig) string { return items(r.list(t, alice, mcp.MethodToolsList)) }},
		{"resources_list", func(t *testing.T, r *rig) string { return items(r.list(t, alice, mcp.MethodResourcesList)) }},
		{"templates_list",
			func(t *testing.T, r *rig) string { return items(r.list(t, alice, mcp.MethodResourceTemplatesList)) }},
		{"discover", func(t *testing.T, r *rig) string {
			return string(r.handle(t, alice.call(mcp.MethodDiscover, "", `{}`)).Result)
		}},
		{"complete", func(t *testing.T, r *rig) string {
			return string(r.handle(t, alice.call(mcp.MethodComplete, Template,
				`{"ref":{"type":"ref/resource","uri":"`+Template+
					`"},"argument":{"name":"tools","value":"weather__now,crm__"}}`)).Result)
		}},
		{"read_result", func(t *testing.T, r *rig) string {
			return string(r.handle(t, alice.call(mcp.MethodResourcesRead, URI+"?tools=weather__now", `{}`)).Result)
		}},
		{"described", func(t *testing.T, r *rig) string { return r.fetch(t, alice, "?tools=crm__export,weather__now") }},
		{"described_by_tool", func(t *testing.T, r *rig) string {
			return r.tool(t, alice, ToolName, `{"names":["crm__export","weather__now"]}`)
		}},
		{"missing_selection", func(t *testing.T, r *rig) string { return r.fetch(t, alice, "") }},
		{"too_many", func(t *testing.T, r *rig) string { return r.fetch(t, alice, "?tools="+manyNames(51)) }},
		{"unknown", func(t *testing.T, r *rig) string { return r.fetch(t, alice, "?tools=crm__secret") }},
		{"required_result", func(t *testing.T, r *rig) string {
			return string(r.handle(t, alice.call(mcp.MethodToolsCall, "crm__export", `{}`)).Result)
		}},
		{"required", func(t *testing.T, r *rig) string { return r.tool(t, alice, "crm__export", `{}`) }},
		{"required_stateless", func(t *testing.T, r *rig) string { return r.tool(t, modern, "crm__export", `{}`) }},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			r := newRig(t, Config{Mode: ModeProgressive, Descriptions: "testdata/descriptions"}, func(d *Deps) {
				d.Upstreams["crm"] = Upstream{Summaries: map[string]string{"delete_all": "Empties the CRM."}}
			})
			var got bytes.Buffer
			if err := json.Indent(&got, []byte(tt.say(t, r)), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", tt.file+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s is not what is said (-file +said); -update writes it anew:\n%s", file, diff)
			}
		})
	}
}

// TestDocsHaveThePrompt: the docs recommend the prompt in the same words.
func TestDocsHaveThePrompt(t *testing.T) {
	page, err := os.ReadFile("../../../docs/disclosure.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("```\n"+Prompt+"\n```")) {
		t.Error("docs/disclosure.md has another text for the system prompt than Prompt")
	}
}

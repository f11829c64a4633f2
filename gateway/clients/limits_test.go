package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestDoubts(t *testing.T) {
	tool := func(name string, description int) mcp.Item {
		return mcp.Item{Name: name, Raw: mcp.Object("name", mcp.String(name), "description",
			mcp.String(strings.Repeat("x", description)))}
	}
	for _, tt := range []struct {
		name  string
		tools []mcp.Item
		full  bool
		want  []string
	}{
		{"what all accept", []mcp.Item{tool(strings.Repeat("n", 48), 2048)}, true, nil},
		{"a long description", []mcp.Item{tool("a", 2049)}, true,
			[]string{"Claude Code: at most 2048 bytes for the description of a tool; beyond that, the rest is cut: a (2049)"}},
		{"a long description that clients do not see", []mcp.Item{tool("a", 2049)}, false, nil},
		{"a long name", []mcp.Item{tool(strings.Repeat("n", 51), 1)}, true, []string{
			"Claude Code: at most 64 bytes with mcp__gatehouse__ in front for the name of a tool; beyond that, requests to the model fail: " + strings.Repeat("n", 51) + " (67)",
			"Cursor: at most 60 bytes with gatehouse: in front for the name of a tool; beyond that, the tool is left out: " +
				strings.Repeat("n", 51) + " (61)",
			"Gemini CLI: at most 64 bytes with mcp_gatehouse_ in front for the name of a tool; beyond that, the name is cut: " +
				strings.Repeat("n", 51) + " (65)",
		}},
		{"a few of many", []mcp.Item{tool("a.b", 1), tool("ok-1_A", 1), tool("c/d", 1), tool("e f", 1), tool("g.", 1)}, true,
			[]string{"Copilot CLI: only A-Z a-z 0-9 _ - in the name of a tool; with others, requests to the model fail: a.b, c/d, e f and 1 more"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Doubts(tt.tools, tt.full); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestTooMany(t *testing.T) {
	for n, want := range map[int][]string{
		40: nil,
		41: {"Cursor: at most 40 tools; beyond that, the others are left out: there are 41 for callers who may use all of them"},
		129: {"Cursor: at most 40 tools; beyond that, the others are left out: there are 129 for callers who may use all of them",
			"VS Code: at most 128 tools; beyond that, requests to the model fail: there are 129 for callers who may use all of them"},
	} {
		if got := TooMany(n); !slices.Equal(got, want) {
			t.Errorf("%d: got  %q\nwant %q", n, got, want)
		}
	}
}

// TestLimitsAreDocumented: docs/clients.md has the same limits, and ReadByAll respects them.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, l := range limits {
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", l.client, l.of, l.bound(), l.beyond)
		if (l.of == instructions || l.of == description) && l.most < ReadByAll {
			t.Errorf("%s reads only %d bytes of %s", l.client, l.most, l.of)
		}
	}
	_, table, _ := strings.Cut(string(page), "| client | what | at most | beyond that |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table+"\n" != rows.String() {
		t.Errorf("docs/clients.md has\n%s\nwant\n%s", table, rows.String())
	}
}

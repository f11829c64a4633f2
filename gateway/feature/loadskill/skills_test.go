package loadskill

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestTheToolIsShort: the tool stays short however many skills there are, and says how to
// find the others.
func TestTheToolIsShort(t *testing.T) {
	var l listing
	for i := range 2000 {
		l.all = append(l.all, skill{name: fmt.Sprintf("pb__%d", i), description: strings.Repeat("ü", 500)})
	}
	description, _ := l.tool().Member("description")
	text := description.Text()
	named := strings.Count(text, "\n- pb__")
	if want := fmt.Sprintf("\nand %d more: call it without a name for all of them.", 2000-named); len(text) > maxAboutAll+100 || named == 0 || !strings.HasSuffix(text, want) || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if got := strings.Count(l.text(), "\n"); got != 2000 {
		t.Errorf("without a name %d are listed", got)
	}
	for text, want := range map[string]string{"A. B.": "A.", "A 1.2 b": "A 1.2 b", strings.Repeat("ü", 121): strings.Repeat("ü", 119) + "…"} {
		if got := clip(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestFilesOfASkill: files are found by their path or their URI, and by nothing else.
func TestFilesOfASkill(t *testing.T) {
	known := skill{uri: "skill://pb/a/SKILL.md", files: mcp.Raw(`[{"uri":"skill://pb/a/SKILL.md"},{"uri":"skill://pb/a/b%20c.md"}]`)}
	open := skill{uri: "skill://pb/a/SKILL.md", files: mcp.Raw(`"dynamic"`)}
	for _, tt := range []struct {
		of         skill
		file, want string
	}{
		{known, "b c.md", "skill://pb/a/b%20c.md"},
		{known, "b%20c.md", "skill://pb/a/b%20c.md"},
		{known, "./x/../b c.md", "skill://pb/a/b%20c.md"},
		{known, "skill://pb/a/b%20c.md", "skill://pb/a/b%20c.md"},
		{known, "d.md", ""},
		{known, "skill://pb/other/x", ""},
		{open, "x/b c?.md", "skill://pb/a/x/b%20c%3F.md"},
		{open, "../other/SKILL.md", ""},
		{open, "/etc/passwd", ""},
		{open, `..\x`, ""},
		{open, "..", ""},
		{open, ".", ""},
	} {
		if got, ok := tt.of.file(tt.file); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s is %q, want %q", tt.file, got, tt.want)
		}
	}
}

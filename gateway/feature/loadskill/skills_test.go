package loadskill

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestTheToolIsShort: every client reads the tool's description whole, however many skills there
// are, and it says how to find those that it leaves out.
func TestTheToolIsShort(t *testing.T) {
	for _, tt := range []struct {
		skills int
		want   string // the last line
	}{
		{2, "- pb__1: " + strings.Repeat("ü", maxAbout-1) + "…"},
		{13, "- pb__12: " + strings.Repeat("ü", maxAbout/2-1) + "…"},
		{100, "- pb__99"},
		{2000, "and 1804 more: call it without a name for all of them."},
	} {
		var l listing
		for i := range tt.skills {
			l.all = append(l.all, skill{name: fmt.Sprintf("pb__%d", i), description: strings.Repeat("ü", 500)})
		}
		description, _ := l.tool().Member("description")
		text := description.Text()
		if len(text) > clients.ReadByAll || !strings.HasSuffix(text, "\n"+tt.want) || !utf8.ValidString(text) {
			t.Errorf("%d skills: %d bytes: %s", tt.skills, len(text), text)
		}
		if got := strings.Count(l.text(), "\n"); got != tt.skills {
			t.Errorf("without a name %d are listed", got)
		}
	}
	for text, want := range map[string]string{"A. B.": "A.", "A 1.2 b": "A 1.2 b",
		strings.Repeat("ü", 121): strings.Repeat("ü", 119) + "…"} {
		if got := clip(text, maxAbout); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestFilesOfASkill: files are found by their path or their URI, and by nothing else.
func TestFilesOfASkill(t *testing.T) {
	known := skill{uri: "skill://pb/a/SKILL.md",
		files: mcp.Raw(`[{"uri":"skill://pb/a/SKILL.md"},{"uri":"skill://pb/a/b%20c.md"}]`)}
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

// TestNoSkillsYet: where there may be skills later, tools are declared, so there is a list of them.
func TestNoSkillsYet(t *testing.T) {
	for _, offered := range []bool{true, false} {
		h := Middleware(Config{LoadTool: true}, slog.New(slog.DiscardHandler))(mcp.HandlerFunc(func(_ context.Context,
			c *mcp.Call) (*mcp.Reply, error) {
			if c.Method == mcp.MethodSkillsList && offered {
				return &mcp.Reply{List: &mcp.List{}}, nil
			}
			return nil, mcp.ErrMethod(c.Method)
		}))
		reply, err := h.Handle(t.Context(), &mcp.Call{Method: mcp.MethodToolsList})
		if offered != (err == nil) || offered && (reply.List == nil || reply.List.Items == nil || len(reply.List.Items) > 0) {
			t.Errorf("with skills %t: %+v, %v", offered, reply, err)
		}
	}
}

package upstream

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestSlugs(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{"refunds", "a-b", "A-B", "a_b", "a b", "ab", "--", "", "ü", "x/y", strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 66), strings.Repeat("-", 70) + "z"} {
		slug := slugOf(name)
		if !skillName.MatchString(slug) || len(slug) > maxSkillName {
			t.Errorf("%q becomes %q", name, slug)
		}
		if other, taken := seen[slug]; taken {
			t.Errorf("%q and %q both become %q", name, other, slug)
		}
		seen[slug] = name
	}
	if slugOf("refunds") != "refunds" {
		t.Error("a good name is changed")
	}
}

// TestP9_196_WrittenSkills: of a SKILL.md that is written here, a reader gets the
// frontmatter that its record has.
func TestP9_196_WrittenSkills(t *testing.T) {
	for _, text := range []string{"plain", "---\n", "a: b # c", "\u2028\u2029\u0085\x7f\ufeff", "quote \" \\ \n\t\x01", "😀", "{x} [y] *z &w !t %d @ `"} {
		frontmatter := mcp.Object("name", mcp.String("a"), "description", mcp.String("x"+text), "metadata", mcp.Object("version", mcp.String(text)))
		got, err := readSkill(writeSkill(frontmatter, "body "+text))
		if err != nil || got.body != "body "+text {
			t.Errorf("%q: %q, %v", text, got.body, err)
			continue
		}
		for _, member := range []string{"name", "description"} {
			want, _ := frontmatter.Member(member)
			is, _ := got.frontmatter.Member(member)
			if is.Text() != want.Text() {
				t.Errorf("%q: %s is %q, want %q", text, member, is.Text(), want.Text())
			}
		}
	}
}

package skillmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// skill is a SKILL.md with more fields.
func skill(name, more string) string {
	return "---\nname: " + name + "\ndescription: What " + name + " is for.\n" + more + "---\n# " + name + "\n\nDo it.\n"
}

func TestSlugs(t *testing.T) {
	seen := make(map[string]string)
	for _, name := range []string{"refunds", "a-b", "A-B", "a_b", "a b", "ab", "--", "", "ü", "x/y",
		strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 66), strings.Repeat("-", 70) + "z"} {
		slug := Slug(name)
		if !IsName(slug) {
			t.Errorf("%q becomes %q", name, slug)
		}
		if other, taken := seen[slug]; taken {
			t.Errorf("%q and %q both become %q", name, other, slug)
		}
		seen[slug] = name
	}
	if Slug("refunds") != "refunds" {
		t.Error("a good name is changed")
	}
}

// TestWrittenSkills: of a SKILL.md that is written here, a reader gets the
// frontmatter that its record has.
func TestWrittenSkills(t *testing.T) {
	for _, text := range []string{"plain", "---\n", "a: b # c", "\u2028\u2029\u0085\x7f\ufeff", "quote \" \\ \n\t\x01",
		"😀", "{x} [y] *z &w !t %d @ `"} {
		frontmatter := mcp.Object("name", mcp.String("a"), "description", mcp.String("x"+text), "metadata",
			mcp.Object("version", mcp.String(text)))
		got, err := Read(Write(frontmatter, "body "+text))
		if err != nil || got.Body != "body "+text {
			t.Errorf("%q: %q, %v", text, got.Body, err)
			continue
		}
		for _, member := range []string{"name", "description"} {
			want, _ := frontmatter.Member(member)
			is, _ := got.Frontmatter.Member(member)
			if is.Text() != want.Text() {
				t.Errorf("%q: %s is %q, want %q", text, member, is.Text(), want.Text())
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{skill("a", ""),
		"---\nname: a\ndescription: |\n  x\n  y\nmetadata: {a: 1.5, b: 0x10}\n---\n", "---\n---\n", "---\na: [\n---\n",
		"---\n? a\n: b\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Read(text)
		if err != nil {
			return
		}
		if name, _ := s.Frontmatter.Member("name"); name.Text() != s.Name || !IsName(s.Name) {
			t.Errorf("name %q of %s", s.Name, s.Frontmatter)
		}
		if !bytes.HasSuffix(text, []byte(s.Body)) {
			t.Errorf("the body is not the end of the file")
		}
		if _, err := ReadFrontmatter(s.Frontmatter); err != nil { // JSON is YAML
			t.Errorf("%s: %v", s.Frontmatter, err)
		}
	})
}

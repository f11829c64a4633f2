package upstream

import (
	"fmt"
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

// TestManifests: of one that cannot be relied on, nothing is taken.
func TestManifests(t *testing.T) {
	digest := digestOf([]byte("text"))
	file := func(path string) string { return `{"path":"` + path + `","size":1,"hash":"` + digest + `"}` }
	manifest := func(files ...string) string { return `{"skill":"a","files":[` + strings.Join(files, ",") + `]}` }
	many := []string{file("SKILL.md")}
	for i := range maxSkillFiles {
		many = append(many, file(fmt.Sprintf("f%d", i)))
	}
	good := `[{"uri":"skill://a/SKILL.md","digest":"` + digest + `","size":1},{"uri":"skill://a/b/c.md","digest":"` + digest + `","size":1}]`
	for name, tt := range map[string]struct{ text, want string }{
		"good":                 {manifest(file("SKILL.md"), file("b/c.md")), good},
		"no JSON":              {"files", ""},
		"no object":            {"[]", ""},
		"no files":             {`{"skill":"a"}`, ""},
		"files of no kind":     {`{"files":{"path":"SKILL.md"}}`, ""},
		"no SKILL.md":          {manifest(file("a.md")), ""},
		"another SKILL.md":     {manifest(`{"path":"SKILL.md","size":1,"hash":"` + digestOf([]byte("other")) + `"}`), ""},
		"a file twice":         {manifest(file("SKILL.md"), file("a.md"), file("a.md")), ""},
		"up and out":           {manifest(file("SKILL.md"), file("../b/SKILL.md")), ""},
		"up within":            {manifest(file("SKILL.md"), file("a/../b")), ""},
		"absolute":             {manifest(file("SKILL.md"), file("/etc/passwd")), ""},
		"an empty segment":     {manifest(file("SKILL.md"), file("a//b")), ""},
		"not as in a URI":      {manifest(file("SKILL.md"), file("a b")), ""},
		"percent":              {manifest(file("SKILL.md"), file("%2e%2e/b")), ""},
		"no hash":              {manifest(`{"path":"SKILL.md","size":1}`), ""},
		"a hash of other form": {manifest(file("SKILL.md"), `{"path":"a","size":1,"hash":"sha256:AB"}`), ""},
		"a negative size":      {manifest(file("SKILL.md"), `{"path":"a","size":-1,"hash":"`+digest+`"}`), ""},
		"a size of no kind":    {manifest(file("SKILL.md"), `{"path":"a","size":"1","hash":"`+digest+`"}`), ""},
		"too large":            {manifest(file("SKILL.md"), `{"path":"a","size":16777216,"hash":"`+digest+`"}`), ""},
		"too many":             {manifest(many...), ""},
	} {
		if got := string(manifestFiles([]byte(tt.text), "skill://a", digest)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

package skills

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/skillmd"
)

// TestManifests: of one that cannot be relied on, nothing is taken.
func TestManifests(t *testing.T) {
	digest := skillmd.Digest([]byte("text"))
	file := func(path string) string { return `{"path":"` + path + `","size":1,"hash":"` + digest + `"}` }
	manifest := func(files ...string) string { return `{"skill":"a","files":[` + strings.Join(files, ",") + `]}` }
	many := []string{file("SKILL.md")}
	for i := range skillmd.MaxFiles {
		many = append(many, file(fmt.Sprintf("f%d", i)))
	}
	good := `[{"uri":"skill://a/SKILL.md","digest":"` + digest + `","size":1},{"uri":"skill://a/b/c.md","digest":"` +
		digest + `","size":1}]`
	for name, tt := range map[string]struct{ text, want string }{
		"good":             {manifest(file("SKILL.md"), file("b/c.md")), good},
		"no JSON":          {"files", ""},
		"no object":        {"[]", ""},
		"no files":         {`{"skill":"a"}`, ""},
		"files of no kind": {`{"files":{"path":"SKILL.md"}}`, ""},
		"no SKILL.md":      {manifest(file("a.md")), ""},
		"another SKILL.md": {manifest(`{"path":"SKILL.md","size":1,"hash":"` + skillmd.Digest([]byte("other")) + `"}`),
			""},
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

package skillmd

import (
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestMetadataIsText, also where YAML has another word for it.
func TestMetadataIsText(t *testing.T) {
	for written, want := range map[string]string{
		"\"1.10\"": `"1.10"`, "3": `"3"`, "true": `"true"`, "": `""`, "x": `"x"`,
	} {
		s, err := Read([]byte("---\nname: a\ndescription: d\nnumber: 3\nmetadata:\n  other: \"y\"\n  version: " +
			written + "\n---\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := s.Record("a", "skill://a/SKILL.md").Member("frontmatter")
		if want := `{"name":"a","description":"d","number":3,"metadata":{"other":"y","version":` + want +
			`}}`; string(got) != want {
			t.Errorf("%q: got %s, want %s", written, got, want)
		}
	}
}

// TestVersionOfASkillIsAsWritten, though YAML takes it for a number.
func TestVersionOfASkillIsAsWritten(t *testing.T) {
	for written, want := range map[string]string{"1.10": "1.10", "2.0": "2.0", "3": "3", `"1.2"`: "1.2",
		"1.2.3": "1.2.3"} {
		s, err := Read([]byte(skill("a", "metadata:\n  version: "+written+"\n")))
		if err != nil {
			t.Fatal(err)
		}
		if version, _ := s.Record("a", "skill://a/SKILL.md").Member("version"); string(version) != string(mcp.String(want)) {
			t.Errorf("version %s is told as %s, want %q", written, version, want)
		}
	}
}

// TestArgumentsOfASkill: hosts ask for what the frontmatter names (SEP-2076 §5).
func TestArgumentsOfASkill(t *testing.T) {
	for written, want := range map[string]string{
		"arguments:\n  - {name: region, title: Region, description: Whose., required: true, secret: 1}\n  - month\n  - {title: no name}\n  - month\n": `[{"name":"region","title":"Region","description":"Whose.","required":true},{"name":"month"}]`,
		"arguments: issue branch\n":                            `[{"name":"issue"},{"name":"branch"}]`,
		"metadata:\n  gatehouse.arguments: region, month\n":    `[{"name":"region"},{"name":"month"}]`,
		"arguments: [{name: a, required: yes, title: 7}, 5]\n": `[{"name":"a"}]`,
		"arguments: 5\n": "", "arguments: []\n": "", "arguments: {a: b}\n": "", "license: MIT\n": "",
	} {
		s, err := Read([]byte(skill("a", written)))
		if err != nil {
			t.Fatal(err)
		}
		if arguments, _ := s.Record("a", "skill://a/SKILL.md").Member("arguments"); string(arguments) != want {
			t.Errorf("%q: arguments %s, want %s", written, arguments, want)
		}
	}
}

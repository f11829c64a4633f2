package upstream

import (
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestFrontmatterIsReadByYAML12: clients compare an entry with what they read themselves,
// by the core schema of YAML 1.2.
func TestFrontmatterIsReadByYAML12(t *testing.T) {
	for written, want := range map[string]string{
		"01067": `1067`, "1_000": `"1_000"`, "0b11": `"0b11"`, "0o17": `15`, "0x1F": `31`, "017": `17`, "0": `0`, "000": `0`, "+5": `5`, "-0": `-0`, "-7": `-7`,
		"12345678901234567890": `12345678901234567890`, "123456789012345678901234": `123456789012345678901234`, "0xffffffffffffffffffff": `1208925819614629174706175`,
		"1.10": `1.10`, "2.0": `2.0`, "+1.5": `1.5`, ".5": `0.5`, "-.5": `-0.5`, "5.": `5`, "01.50": `1.50`, "1e3": `1e3`, "1.E+3": `1E+3`, "1e-400": `1e-400`,
		".": `"."`, "e5": `"e5"`, "1.2.3": `"1.2.3"`, "1:30": `"1:30"`, "0b": `"0b"`, "0o8": `"0o8"`, "0x": `"0x"`, "1_0.5": `"1_0.5"`,
		"yes": `"yes"`, "on": `"on"`, "y": `"y"`, "True": `true`, "FALSE": `false`, "tRUE": `"tRUE"`, "~": `null`, "Null": `null`, "": `null`, "nULL": `"nULL"`,
		"2026-01-02": `"2026-01-02"`, "2026-01-02T10:00:00Z": `"2026-01-02T10:00:00Z"`, `"5"`: `"5"`, "'null'": `"null"`, "=": `"="`, "<<": `"<<"`,
	} {
		got, err := readFrontmatter([]byte("x: " + written + "\n"))
		if text := strings.TrimSuffix(strings.TrimPrefix(string(got), `{"x":`), "}"); err != nil || text != want {
			t.Errorf("%q is %s, %v, want %s", written, text, err, want)
		}
	}
	for _, written := range []string{".inf", "-.INF", ".nan", "1e400", "1" + strings.Repeat("0", 400)} {
		if got, err := readFrontmatter([]byte("x: " + written + "\n")); err == nil {
			t.Errorf("%q is %s", written, got)
		}
	}
	for key, want := range map[string]bool{"0b11": true, "1_000": true, "'1'": true, "1": false, "1.5": false, "true": false, "null": false, "~": false, "<<": false} {
		if got, err := readFrontmatter([]byte(key + ": x\n")); (err == nil) != want {
			t.Errorf("key %s: %s, %v", key, got, err)
		}
	}
}

// TestVersionOfASkillIsAsWritten, though YAML takes it for a number.
func TestVersionOfASkillIsAsWritten(t *testing.T) {
	for written, want := range map[string]string{"1.10": "1.10", "2.0": "2.0", "3": "3", `"1.2"`: "1.2", "1.2.3": "1.2.3"} {
		s, err := readSkill([]byte(skillMD("a", "metadata:\n  version: "+written+"\n")))
		if err != nil {
			t.Fatal(err)
		}
		if version, _ := s.record("a", "skill://a/SKILL.md").Member("version"); string(version) != string(mcp.String(want)) {
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
		s, err := readSkill([]byte(skillMD("a", written)))
		if err != nil {
			t.Fatal(err)
		}
		if arguments, _ := s.record("a", "skill://a/SKILL.md").Member("arguments"); string(arguments) != want {
			t.Errorf("%q: arguments %s, want %s", written, arguments, want)
		}
	}
}

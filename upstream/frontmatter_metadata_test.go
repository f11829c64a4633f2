package upstream

import "testing"

// TestMetadataIsText, also where YAML has another word for it.
func TestMetadataIsText(t *testing.T) {
	for written, want := range map[string]string{
		"\"1.10\"": `"1.10"`, "3": `"3"`, "true": `"true"`, "": `""`, "x": `"x"`,
	} {
		s, err := readSkill([]byte("---\nname: a\ndescription: d\nnumber: 3\nmetadata:\n  other: \"y\"\n  version: " + written + "\n---\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := s.record("a", "skill://a/SKILL.md").Member("frontmatter")
		if want := `{"name":"a","description":"d","number":3,"metadata":{"other":"y","version":` + want + `}}`; string(got) != want {
			t.Errorf("%q: got %s, want %s", written, got, want)
		}
	}
}

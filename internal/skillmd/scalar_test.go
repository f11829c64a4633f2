package skillmd

import (
	"strings"
	"testing"
)

// TestFrontmatterIsReadByYAML12: clients compare an entry with what they read themselves,
// by the core schema of YAML 1.2.
func TestFrontmatterIsReadByYAML12(t *testing.T) {
	for written, want := range map[string]string{
		"01067": `1067`, "1_000": `"1_000"`, "0b11": `"0b11"`, "0o17": `15`, "0x1F": `31`, "017": `17`, "0": `0`, "000": `0`,
		"+5": `5`, "-0": `-0`, "-7": `-7`,
		"12345678901234567890": `12345678901234567890`, "123456789012345678901234": `123456789012345678901234`,
		"0xffffffffffffffffffff": `1208925819614629174706175`,
		"1.10":                   `1.10`, "2.0": `2.0`, "+1.5": `1.5`, ".5": `0.5`, "-.5": `-0.5`, "5.": `5`, "01.50": `1.50`,
		"1e3": `1e3`, "1.E+3": `1E+3`, "1e-400": `1e-400`,
		".": `"."`, "e5": `"e5"`, "1.2.3": `"1.2.3"`, "1:30": `"1:30"`, "0b": `"0b"`, "0o8": `"0o8"`, "0x": `"0x"`,
		"1_0.5": `"1_0.5"`,
		"yes":   `"yes"`, "on": `"on"`, "y": `"y"`, "True": `true`, "FALSE": `false`, "tRUE": `"tRUE"`, "~": `null`,
		"Null": `null`, "": `null`, "nULL": `"nULL"`,
		"2026-01-02": `"2026-01-02"`, "2026-01-02T10:00:00Z": `"2026-01-02T10:00:00Z"`, `"5"`: `"5"`, "'null'": `"null"`,
		"=": `"="`, "<<": `"<<"`,
	} {
		got, err := ReadFrontmatter([]byte("x: " + written + "\n"))
		if text := strings.TrimSuffix(strings.TrimPrefix(string(got), `{"x":`), "}"); err != nil || text != want {
			t.Errorf("%q is %s, %v, want %s", written, text, err, want)
		}
	}
	for _, written := range []string{".inf", "-.INF", ".nan", "1e400", "1" + strings.Repeat("0", 400)} {
		if got, err := ReadFrontmatter([]byte("x: " + written + "\n")); err == nil {
			t.Errorf("%q is %s", written, got)
		}
	}
	for key, want := range map[string]bool{"0b11": true, "1_000": true, "'1'": true, "1": false, "1.5": false,
		"true": false, "null": false, "~": false, "<<": false} {
		if got, err := ReadFrontmatter([]byte(key + ": x\n")); (err == nil) != want {
			t.Errorf("key %s: %s, %v", key, got, err)
		}
	}
}

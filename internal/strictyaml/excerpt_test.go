package strictyaml

import (
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		column     int
		want       string
	}{
		{"a key", `  lisen: "127.0.0.1:8080"`, 3, "  lisen: …\n  ^"},
		{"a value", `default: perhaps`, 10, "default: …\n         ^"},
		{"an entry of a list", `- rol: viewer`, 3, "- rol: …\n  ^"},
		{"in a line of its own", `- {name: sees, rol: viewer}`, 16, "…\n^"},
		{"a value with a colon", `password: abc: def`, 14, "password: …\n          ^"},
		{"a key without a space behind its colon", `token:hunter2`, 4, "…\n^"},
		{"a key that is none", `"hunter 2": x`, 4, "…\n^"},
		{"characters that are longer", `größe: ä`, 8, "größe: …\n       ^"},
		{"no column", `a: b`, 0, "a: …"},
		{"beyond the end", `a: b`, 99, "a: …\n   ^"},
		{"empty", ``, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Excerpt(tt.line, tt.column); got != tt.want {
				t.Errorf("\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// FuzzExcerpt: no line makes it fail, and a secret that stands as a value is never shown.
func FuzzExcerpt(f *testing.F) {
	for _, line := range []string{"token: %", "  - {token: %, x: y}", "token: \"%", "x: [%, '%', \"%\"]",
		"headers: {A: Bearer %}", "- %", "token:  %:%", "token: >- %", "a: {b: {c: %", "token: ${env:A}%", "token: ${%}",
		"token: '${env:A}%${env:B}'"} {
		f.Add(line, 3)
	}
	f.Add("A:", 9)
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, line string, column int) {
		key, value, found := strings.Cut(strings.ReplaceAll(line, secret, ""), "%")
		text := Excerpt(line, column)
		// The line with a space and "…" behind it; a line break, and a caret below its last character.
		if shown := len([]rune(line)) + 2; len([]rune(text)) > 2*shown+1 {
			t.Errorf("%d characters for %q", len([]rune(text)), line)
		}
		if found && strings.HasPrefix(key, "token: ") && !strings.ContainsAny(key+value, "{[,\n") {
			if got := Excerpt(key+secret+value, column); strings.Contains(got, secret) {
				t.Errorf("%q is shown as %q", key+secret+value, got)
			}
		}
	})
}

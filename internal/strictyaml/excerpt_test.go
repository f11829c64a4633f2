package strictyaml

import (
	"strings"
	"testing"
)

func TestExcerpt(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		column     int
		message    string
		want       string
	}{
		{"a key", `  lisen: "127.0.0.1:8080"`, 3, `unknown key: "lisen"`, "  lisen: …\n  ^"},
		{"a value that the message has", `default: perhaps`, 10, `default: "perhaps": want deny or allow`, "default: perhaps\n         ^"},
		{"a misspelt secret", `  pasword: hunter2`, 3, "unknown key", "  pasword: …\n  ^"},
		{"in a line of its own", `- {name: sees, rol: viewer, token: 0123456789abcdef}`, 16, "unknown key: rol", "- {name: …, rol: …, token: …}\n            ^"},
		{"a reference", `token: "${env:TOKEN}"`, 1, "is too short", "token: \"${env:TOKEN}\"\n^"},
		{"a reference within braces", `{token: ${env:TOKEN}, x: y}`, 1, "is not valid YAML", "{token: ${env:TOKEN}, x: …}\n^"},
		{"a password with a colon", `password: abc: def`, 14, "mapping values are not allowed", "password: … …\n          ^"},
		{"quotes that do not end", `password: "abc: def`, 11, "is not valid YAML", "password: …\n          ^"},
		{"quotes with quotes", `password: "abc\": def" x: y`, 11, "is not valid YAML", "password: …\n          ^"},
		{"a URL with a password", `url: redis://user:pass@host/0`, 1, "cannot be used", "url: …\n^"},
		{"a key of something else", `headers: {Authorization:hunter2: x, X-Team: "a"}`, 11, "unknown key", "headers: {…: …, X-Team: …}\n          ^"},
		{"a key without a space behind its colon", `  {token:hunter2, token=hunter2}`, 4, "unknown key", "  {…, …}\n   ^"},
		{"what is between references", `token: '${env:A}hunter2${env:B}'`, 8, "is too short", "token: …\n       ^"},
		{"what is behind a reference", `token: ${env:A}hunter2`, 8, "is too short", "token: ${env:A}…\n       ^"},
		{"no reference", `token: ${hunter2}`, 8, "unknown reference", "token: …\n       ^"},
		{"a comment", `listen: x # the password is hunter2`, 1, `"x" is no address`, "listen: x \n^"},
		{"characters that are longer", `größe: ä`, 8, "", "größe: …\n       ^"},
		{"no column", `a: b`, 0, "", "a: …"},
		{"beyond the end", `a: b`, 99, "", "a: …"},
		{"empty", ``, 1, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Excerpt(tt.line, tt.column, tt.message); got != tt.want {
				t.Errorf("\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// FuzzExcerpt: no line makes it fail, and a secret that stands as a value is never shown.
func FuzzExcerpt(f *testing.F) {
	for _, line := range []string{"token: %", "  - {token: %, x: y}", "token: \"%", "x: [%, '%', \"%\"]", "headers: {A: Bearer %}", "- %", "token:  %:%", "token: >- %", "a: {b: {c: %", "token: ${env:A}%", "token: ${%}", "token: '${env:A}%${env:B}'"} {
		f.Add(line, 3)
	}
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, line string, column int) {
		key, value, found := strings.Cut(strings.ReplaceAll(line, secret, ""), "%")
		text := Excerpt(line, column, "is wrong")
		if len([]rune(text)) > 3*mostExcerpt {
			t.Errorf("%d bytes", len(text))
		}
		if found && strings.HasPrefix(key, "token: ") && !strings.ContainsAny(key+value, "{[,\n") {
			if got := Excerpt(key+secret+value, column, "is wrong"); strings.Contains(got, secret) {
				t.Errorf("%q is shown as %q", key+secret+value, got)
			}
		}
	})
}

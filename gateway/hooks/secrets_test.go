package hooks

import (
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	const (
		jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
		key = "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nAAAA\n-----END RSA PRIVATE KEY-----"
	)
	all, err := newFinder(SecretNames(), []string{`\bACME-[0-9]{4}\b`})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, want string }{
		{"nothing of interest", ""},
		{"id AKIAIOSFODNN7EXAMPLE.", "id *."},
		{"AKIAIOSFODNN7EXAMPLEX", ""},
		{"ghp_" + strings.Repeat("a1", 18), "*"},
		{"token=github_pat_" + strings.Repeat("a1_", 20), "token=*"},
		{"ghp_short", ""},
		{"xoxb-1234567890-abc", "*"},
		{"AIza" + strings.Repeat("x", 35), "*"},
		{"Bearer " + jwt + ", and " + jwt, "Bearer *, and *"},
		{"eyJhbGciOiJIUzI1NiJ9", ""},
		{"a " + key + " b", "a * b"},
		{strings.ReplaceAll(key, "\n", `\n`), "*"},
		{"-----BEGIN PRIVATE KEY-----\nMIIB", "*"}, // cut off
		{"-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----\nmore", "*\nmore"},
		{"-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", ""},
		{"ACME-1234 ACME-12345", "* ACME-12345"},
		{"4111111111111111", "*"},
		{"pay 4111 1111 1111 1111 12/29", "pay * 12/29"},
		{"5500-0000-0000-0004, 3400 000000 00009.", "*, *."},
		{"2026 4111 1111 1111 1111", "2026 *"},
		{"4111111111111112", ""},  // its check digit is wrong
		{"1111111111111117", ""},  // nobody issues those
		{"41111111111111110", ""}, // another number
		{"0.4111111111111111", ""},
		{"4111111111111111.5", ""},
		{"4111  1111  1111  1111", ""},
		{"AKIAIOSFODNN7EXAMPLE 4111111111111111 ACME-1234", "* * *"},
	} {
		got := string(all.replace([]byte(tt.text), []byte("*")))
		if got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.text, got, tt.want)
		}
		if has := all.has([]byte(tt.text)); has != (tt.want != "") {
			t.Errorf("%q: has is %t", tt.text, has)
		}
	}
}

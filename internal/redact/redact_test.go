package redact

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"row 7 is locked":                                  "row 7 is locked",
		"login failed: password=hunter2, user=bob":         "login failed: password=<redacted>, user=bob",
		`{"api_key": "abc def", "id": 7}`:                  `{"api_key": <redacted>, "id": 7}`,
		"sent Authorization: Bearer abc.def":               "sent Authorization: <redacted>",
		"refused bearer abcd.efgh here":                    "refused bearer <redacted> here",
		"bearer auth is off":                               "bearer auth is off",
		"dial postgres://app:s3cret@db/x":                  "dial postgres://app:<redacted>@db/x",
		"key AKIAIOSFODNN7EXAMPLE is wrong":                "key <redacted> is wrong",
		"npm_" + strings.Repeat("a", 36) + " is no key":    "<redacted> is no key",
		"a -----BEGIN RSA PRIVATE KEY-----\nMIIE\ncut off": "a <redacted>",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

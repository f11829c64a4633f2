package record

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestServerError(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"plain":        {"row 7 is locked", "row 7 is locked"},
		"a password":   {"login failed: password=hunter2, user=bob", "login failed: password=<redacted>, user=bob"},
		"JSON":         {`{"api_key": "abc def", "id": 7}`, `{"api_key": <redacted>, "id": 7}`},
		"a header":     {"sent Authorization: Bearer abc.def", "sent Authorization: <redacted>"},
		"a scheme":     {"refused bearer abc.def here", "refused bearer <redacted> here"},
		"a URL":        {"dial postgres://app:s3cret@db/x", "dial postgres://app:<redacted>@db/x"},
		"a known form": {"key AKIAIOSFODNN7EXAMPLE is wrong", "key <redacted> is wrong"},
		"broken text":  {"a\xffb", "a\uFFFDb"},
	} {
		if got := ServerError(tt.text); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	long := ServerError(strings.Repeat("ä", 1000))
	if len(long) > maxServerError+len(cutEnd) || !utf8.ValidString(long) || !strings.HasSuffix(long, cutEnd) {
		t.Errorf("a long text: %q", long)
	}
	if cut := ServerError(strings.Repeat("x", maxServerError-10) + " password=hunter2hunter2hunter2"); strings.Contains(cut, "hunter") {
		t.Errorf("a secret at the end: %q", cut)
	}
}

package record

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestServerError(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"plain":       {"row 7 is locked", "row 7 is locked"},
		"a secret":    {"refused bearer abcd.efgh here", "refused bearer <redacted> here"},
		"broken text": {"a\xffb", "a\uFFFDb"},
	} {
		if got := ServerError(tt.text); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	long := ServerError(strings.Repeat("ä", 1000))
	if len(long) > maxServerError+len(cutEnd) || !utf8.ValidString(long) || !strings.HasSuffix(long, cutEnd) {
		t.Errorf("a long text: %q", long)
	}
	if cut := ServerError(strings.Repeat("x", maxServerError-10) +
		" password=hunter2hunter2hunter2"); strings.Contains(cut, "hunter") {
		t.Errorf("a secret at the end: %q", cut)
	}
}

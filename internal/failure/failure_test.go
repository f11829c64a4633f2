package failure

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage compares the table with docs/errors.md: each name has its section, with the code,
// the cause and what to do, and there is no other section.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, section, _ := strings.Cut(part, "\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if _, twice := sections[name]; twice {
			t.Errorf("docs/errors.md has %s twice", name)
		}
		sections[name] = section
	}
	for _, n := range All() {
		section, ok := sections[n.String()]
		if !ok {
			t.Errorf("docs/errors.md lacks %s", n)
			continue
		}
		delete(sections, n.String())
		head := fmt.Sprintf("\nCode: %d. Retry: %s.\n", n.Code(), n.Retry())
		switch {
		case n == Upstream:
			head = fmt.Sprintf("\nCode: the server's. Retry: %s.\n", n.Retry())
		case n.Code() == 0:
			head = fmt.Sprintf("\nRetry: %s.\n", n.Retry())
		}
		want := []string{head, "\n- Cause: " + n.Cause() + ".\n", "\n- Operator: "}
		if n.Code() != 0 || n == Upstream {
			want = append(want, "\n- User: ")
		}
		for _, want := range want {
			if !strings.Contains(section, want) {
				t.Errorf("docs/errors.md: %s lacks %q", n, strings.TrimSpace(want))
			}
		}
	}
	for name := range sections {
		t.Errorf("docs/errors.md has %s, which no failure is called", name)
	}
}

// TestTable keeps names and causes in their form.
func TestTable(t *testing.T) {
	form, seen := regexp.MustCompile(`^GH(-[A-Z]+)+$`), make(map[string]bool)
	for _, n := range All() {
		if !form.MatchString(n.String()) || seen[n.String()] {
			t.Errorf("%d is called %q: want GH-SOMETHING, and every name once", n, n)
		}
		seen[n.String()] = true
		if cause := n.Cause(); cause == "" || len(cause) > 120 || strings.HasSuffix(cause, ".") ||
			strings.Contains(cause, "\n") {
			t.Errorf("%s: %q: want one short line without a full stop", n, cause)
		}
		if n.Attr().Key != Key || n.Attr().Value.String() != n.String() || n.Anchor() != strings.ToLower(n.String()) {
			t.Errorf("%s: its attribute is %v, its anchor %s", n, n.Attr(), n.Anchor())
		}
	}
}

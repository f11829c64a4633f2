package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
)

// TestFindingsComeAndGo: a refused file is found at its line, without the secrets in it; and
// when it is corrected, nothing is found.
func TestFindingsComeAndGo(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	good := operatorsConfig + fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, good)
	found := func() (text string) {
		for _, one := range diagnose.Of(factsOf(t.Context(), c.Gateway)) {
			text += fmt.Sprintf("%s\n%s\n%s\n%s\n", one.Kind, one.Cause, one.Next, one.Excerpt)
		}
		return text
	}
	if text := found(); text != "" {
		t.Fatal(text)
	}
	c.write(t, good+"pasword: hunter2\n")
	if err := c.Reload(); err == nil {
		t.Fatal("the file is good")
	}
	text := found()
	for _, want := range []string{"reload\nLine 10, column 1: ", "Correct line 10 of " + c.file, "\npasword: …\n^\n"} {
		if !strings.Contains(text, want) || strings.Contains(text, "hunter2") {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	c.write(t, good)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if text := found(); text != "" {
		t.Error(text)
	}
}

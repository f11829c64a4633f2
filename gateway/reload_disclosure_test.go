package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReloadDisclosure: clients that listen are told that their lists look different in
// another mode, and then get the current mode.
func TestReloadDisclosure(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	full := fmt.Sprintf("upstreams: [{name: a, url: %q}]\n", p.url)
	for _, revision := range []string{stateful, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := startConfigured(t, full)
			session, heard := hearing(t, c.Gateway, revision)
			await := func() {
				t.Helper()
				select {
				case <-heard:
				case <-time.After(patience):
					t.Fatal("the client was not told that it sees other tools")
				}
			}
			c.reload(t, full+"disclosure: {mode: progressive}\n")
			await()
			if got := listTools(t, session); !slices.Equal(got, []string{"describe_tools", "a__work"}) {
				t.Errorf("in short the tools are %q", got)
			}
			if got, err := callTool(t.Context(), session, "a__work"); err != nil ||
				!strings.Contains(got, "TOOL_DESCRIPTION_REQUIRED") {
				t.Errorf("called: %q, %v", got, err)
			}
			c.reload(t, full)
			await()
			if got := listTools(t, session); !slices.Equal(got, []string{"a__work"}) {
				t.Errorf("in full the tools are %q", got)
			}
			if got, err := callTool(t.Context(), session, "a__work"); err != nil || got != "x" {
				t.Errorf("called: %q, %v", got, err)
			}
		})
	}
}

// TestReloadDescriptions: description files are watched as the configuration is, and a bad
// file changes nothing.
func TestReloadDescriptions(t *testing.T) {
	p := newSite(t, true, one("work", saying("x")))
	dir := t.TempDir()
	long := time.Now().Add(-time.Hour)
	write := func(name, text string) {
		t.Helper()
		next := filepath.Join(t.TempDir(), "next")
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(next, long, long); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := startConfigured(t,
		fmt.Sprintf("upstreams: [{name: a, url: %q}]\ndisclosure: {mode: progressive, descriptions: %q}\n", p.url, dir))
	session, heard := hearing(t, c.Gateway, stateful)
	summary := func() string {
		t.Helper()
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "a__work" {
				return tool.Description
			}
		}
		return ""
	}
	write("a__work.json", `{"summary":"First."}`)
	eventually(t, "a new file", func() bool { return summary() == "First." })
	<-heard
	write("a__work.json", `{"summary":"Other."}`) // as long and as old as before
	eventually(t, "another one in its place", func() bool { return summary() == "Other." })
	write("a__more.json", `{"sumary":""}`)
	eventually(t, "a bad file is told of", func() bool { return c.ReloadStatus().Err != nil })
	if got := summary(); got != "Other." {
		t.Errorf("with a bad file the summary is %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "a__more.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a__work.json")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no file", func() bool { return summary() != "Other." && c.ReloadStatus().Err == nil })
}

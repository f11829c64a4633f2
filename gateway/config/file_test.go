package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsTaken: a changed file is loaded at the second look that finds it unchanged,
// never before, and only once.
func TestWhatIsTaken(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gatehouse.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const whole = "shutdown_timeout: 7s\nupstreams: [{name: a, url: \"http://127.0.0.1:1\"}]\n"
	write(whole)
	f := &File{Path: name}
	take := func() (Config, error) {
		l, err := f.Load(nil)
		return l.Config, err
	}
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	looks := func(what string, want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := f.Changed(); got != want {
				t.Fatalf("%s: taken at look %d: %t, want %t", what, i+1, got, want)
			}
		}
	}
	looks("nothing has changed", false, false)
	for written := range len(whole) { // as a reader sees it in between
		write("# new\n" + whole[:written])
		looks("half a file", false)
	}
	write("# new\n" + whole)
	looks("the whole file", false, true)
	if cfg, err := take(); err != nil || cfg.ShutdownTimeout.String() != "7s" {
		t.Fatalf("%+v, %v", cfg.ShutdownTimeout, err)
	}
	looks("it was taken", false, false)
	for i := range 100 {
		write(fmt.Sprintf("# %d\n%s", i, whole))
		looks("a change at every look", false)
	}
	looks("then none", true)
	if _, err := take(); err != nil {
		t.Fatal(err)
	}

	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	looks("it was deleted", false, true)
	if _, err := take(); err == nil {
		t.Fatal("a file that is not there was taken")
	}
	looks("that was told once", false, false)
	write(whole)
	looks("it is back", false, true)
}

// TestUnknownKeysOfALaterRelease: they are ignored for a rollback, but not where they might restrict something.
func TestUnknownKeysOfALaterRelease(t *testing.T) {
	for text, want := range map[string]bool{
		"later: {key: 1}":      true,
		"naming: {later: 5}":   true,
		"defaults: {later: 1}": false,
		"auth: {later: true}":  false,
		"policy: {default: allow, rules: [{name: a, later: 1}]}": false,
		"limits: [{name: l, later: 1}]":                          false,
		"admin: {later: 1}":                                      false,
	} {
		for more, fits := range map[string]bool{"": want, ", timeout: {later: 1s}": want, ", auth: {later: 1}": false,
			", sandbox: {later: 1}": false} {
			at := files(t, map[string]string{
				"gatehouse.yaml": text + "\nupstreams: [{name: a, url: https://a.example" + more + "}]\n",
			})
			l, err := (&File{Path: at, AllowUnknown: true}).Load(nil)
			if (err == nil) != fits {
				t.Errorf("%s%s: %v", text, more, err)
			}
			if err == nil && len(l.Warnings) == 0 {
				t.Errorf("%s%s: no warning", text, more)
			}
			if _, err := (&File{Path: at}).Load(nil); err == nil {
				t.Errorf("%s%s: fits without the flag", text, more)
			}
		}
	}
}

// TestLastRelease: each key of the last release is known, or is ignored with a warning that says why.
func TestLastRelease(t *testing.T) {
	l, err := ReadGiven(filepath.Join("testdata", "last-release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var deprecated []string
	for _, w := range l.Warnings {
		if strings.Contains(w.Message, "http_server") {
			deprecated = append(deprecated, w.String())
		}
	}
	if want := []string{`testdata/last-release.yaml:753: connections: "http_server": ` +
		"has no effect since net/http serves all clients: take it out"}; !slices.Equal(deprecated, want) {
		t.Errorf("warnings %q, want %q", deprecated, want)
	}
}

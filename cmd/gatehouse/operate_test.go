package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth: the exit code tells whether a gateway runs, and with --ready whether it is ready.
func TestHealth(t *testing.T) {
	t.Setenv(tokenVariable, operatorToken) // which probes do not send
	ready, other := http.StatusOK, http.NewServeMux()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a probe has sent a token")
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(ready)
		fmt.Fprintf(w, `{"ready":%t,"reasons":["the store is away","stop\u001b[31mping"]}`, ready == http.StatusOK)
	})
	admin, stranger := httptest.NewServer(mux), httptest.NewServer(other)
	defer admin.Close()
	defer stranger.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, port, _ := net.SplitHostPort(admin.Listener.Addr().String())
	everywhere := file("everywhere.yaml", "admin: {listen: '0.0.0.0:"+port+"'}\n")
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"by URL", []string{"--admin", admin.URL}, 0, "ok\n"},
		{"by configuration", []string{"-c", everywhere}, 0, "ok\n"},
		{"ready", []string{"--admin", admin.URL, "--ready"}, 0, "ready\n"},
		{"not ready", []string{"-c", everywhere, "--ready"}, 1, "not ready: the store is away; stop"},
		{"as JSON", []string{"--admin", admin.URL, "-o", "json"}, 0, "{\"ok\":true}\n"},
		{"not ready, as YAML", []string{"-c", everywhere, "--ready", "-o", "yaml"}, 1, "ready: false\nreasons:\n"},
		{"something else", []string{"--admin", stranger.URL}, 1, "answers 404"},
		{"down", []string{"--admin", "http://127.0.0.1:1"}, 1, "does not answer"},
		{"no listener", []string{"-c", file("none.yaml", "listen: 127.0.0.1:0\n")}, 1, "has no admin.listen"},
		{"nothing to ask", nil, 2, "--config FILE or --admin URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if ready = http.StatusOK; strings.HasPrefix(tt.name, "not ready") {
				ready = http.StatusServiceUnavailable
			}
			var out bytes.Buffer
			code := run(append([]string{"health"}, tt.args...), strings.NewReader(""), &out, &out)
			if code != tt.code || !strings.Contains(out.String(), tt.want) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("exit code %d, want %d: %q, want %q", code, tt.code, out.String(), tt.want)
			}
		})
	}
}

// TestManualPages: each command that is shown has a page, and the pages have the date that the build says.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if code := run([]string{"man", dir}, strings.NewReader(""), os.Stderr, os.Stderr); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, name := range []string{"gatehouse", "gatehouse-serve", "gatehouse-policy-replay", "gatehouse-health"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil || !strings.Contains(string(text), `"Nov 2023"`) {
			t.Errorf("%s: %v %.200s", name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gatehouse-man.1")); err == nil {
		t.Error("a hidden command has a page")
	}
	if code := run([]string{"man", filepath.Join(dir, "none")}, strings.NewReader(""), os.Stderr, os.Stderr); code != 1 {
		t.Errorf("a directory that is not there: exit code %d", code)
	}
}

//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// desktop is a computer whose user, ada, signs in in a browser when a program opens one.
type desktop struct {
	browser string // the program that BROWSER names
	opened  chan string
}

// newDesktop makes a desktop. Its browser is a script that hands URLs over to the test.
func newDesktop(t *testing.T, node string) desktop {
	d := desktop{filepath.Join(t.TempDir(), "browser"), make(chan string)}
	opens := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		at, err := io.ReadAll(io.LimitReader(r.Body, 16<<10))
		if err != nil {
			t.Error(err)
			return
		}
		select {
		case d.opened <- string(at):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		opens.CloseClientConnections()
		opens.Close()
	})
	script := fmt.Sprintf("#!/bin/sh\nexec %q -e 'fetch(process.argv[1], { method: \"POST\", body: process.argv[2] })' %s \"$1\"\n", node, opens.URL)
	if err := os.WriteFile(d.browser, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs a command to its end, and returns its standard output. Meanwhile, the user looks at each
// page that it opens.
func (d desktop) run(t *testing.T, look func(*mcptest.Tab, string), dir string, env []string, input []byte,
	command ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	// xdg-open looks at BROWSER where there is no desktop.
	cmd.Env = append(os.Environ(), append(env, "BROWSER="+d.browser, "XDG_CURRENT_DESKTOP=X-Generic", "DISPLAY=",
		"WAYLAND_DISPLAY=")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p, err := rig.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // what it has started ends with it: mcp-remote stays while it waits for its user
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}()
	for {
		select {
		case at := <-d.opened:
			look(mcptest.NewTab(t, "ada"), at)
		case <-p.Done():
			if err := p.Err(); err != nil {
				t.Fatalf("%s: %v\n%s%s", strings.Join(command, " "), err, stdout.Bytes(), stderr.Bytes())
			}
			return stdout.Bytes()
		case <-ctx.Done():
			t.Fatalf("%s: %v", strings.Join(command, " "), ctx.Err())
		}
	}
}

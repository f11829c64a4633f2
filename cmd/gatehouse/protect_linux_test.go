package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// spy runs this process as a program of a stdio upstream that looks at who started it. On standard
// error it says what it found.
func spy() {
	for _, file := range []string{"environ", "mem", "maps", "auxv", "fd/0"} {
		_, err := os.Open(fmt.Sprintf("/proc/%d/%s", os.Getppid(), file))
		fmt.Fprintf(os.Stderr, "%s denied: %t; ", file, os.IsPermission(err))
	}
	status, _ := os.ReadFile("/proc/self/status") // its lack shows in what is written
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(line, ":"); name == "NoNewPrivs" {
			fmt.Fprintf(os.Stderr, "%s: %s; ", name, strings.TrimSpace(value))
		}
	}
	var core syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_CORE, &core)
	fmt.Fprintf(os.Stderr, "core %d %v\n", core.Max, err)
}

// TestProgramsCannotReadTheGateway: a program of a stdio upstream reads neither environment nor memory
// of the gateway that started it, gains no privileges unless it may, and leaves no core dump.
func TestProgramsCannotReadTheGateway(t *testing.T) {
	mcptest.Long(t)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // for nobody
		t.Fatal(err)
	}
	from, err := exec.LookPath("gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	program, seen := filepath.Join(dir, "gatehouse"), filepath.Join(dir, "spy")
	config := fmt.Sprintf("upstreams:\n- {name: a, command: [%q]}\n- {name: b, command: [%q], allow_new_privileges: true}\n", seen, seen)
	err = cmp.Or(os.WriteFile(program, text, 0o755), os.Symlink(program, seen),
		os.WriteFile(filepath.Join(dir, "gatehouse.yaml"), []byte(config), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "check", "--connect", "--config",
		filepath.Join(dir, "gatehouse.yaml"))
	cmd.Env = append(os.Environ(), "SECRET=of-the-gateway")
	if os.Geteuid() == 0 { // root may read everything
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, _ := cmd.CombinedOutput() // it fails, since the spy serves nothing
	for upstream, gains := range map[string]string{"a": "1", "b": "0"} {
		want := "environ denied: true; mem denied: true; maps denied: true; auxv denied: true; fd/0 denied: true; NoNewPrivs: " + gains + "; core 0 <nil>"
		found := ""
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "process ended") && strings.Contains(line, "upstream="+upstream) {
				found = line
			}
		}
		if !strings.Contains(found, want) {
			t.Errorf("%s: want %q in %s", upstream, want, out)
		}
	}
}

//go:build unix

package cluster

import (
	"syscall"
	"testing"
)

// pause stops a process, as a hanging machine would, until resume.
func pause(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// One of its threads stops the others, which takes a while on a busy machine.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it does not stop: %v, %v", status, err)
	}
}

func resume(p *process) { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

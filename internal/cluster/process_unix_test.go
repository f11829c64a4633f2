//go:build unix

package cluster

import (
	"syscall"
	"testing"
)

// pause stops a process as a machine that hangs does, until resume.
func pause(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// One of its threads stops the others: on a busy machine that takes a while.
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it does not stop: %v, %v", status, err)
	}
}

func resume(p *process) { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

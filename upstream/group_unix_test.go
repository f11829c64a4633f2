//go:build unix

package upstream_test

import (
	"os/exec"
	"syscall"
)

// leaveGroup makes a command run outside of this process's group.
func leaveGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

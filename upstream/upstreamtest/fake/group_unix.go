//go:build unix

package fake

import (
	"os/exec"
	"syscall"
)

// leaveGroup makes a command run outside of this process's group.
func leaveGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

//go:build !unix

package stdio

import "os/exec"

func ownGroup(*exec.Cmd) {}

// signalGroup ends the process; there are no groups, and no signal asks politely.
func signalGroup(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

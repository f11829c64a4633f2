//go:build !unix

package fake

import "os/exec"

// leaveGroup does nothing: this system has no process groups.
func leaveGroup(*exec.Cmd) {}

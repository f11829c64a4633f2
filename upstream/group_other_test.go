//go:build !unix

package upstream_test

import "os/exec"

// leaveGroup does nothing: this system has no process groups.
func leaveGroup(*exec.Cmd) {}

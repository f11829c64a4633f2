//go:build !unix

package upstream_test

import "os/exec"

// leaveGroup does nothing: there are no groups here.
func leaveGroup(*exec.Cmd) {}

//go:build !unix

package rig

import (
	"errors"
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// killGroup kills the process. This system has no process groups.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// terminate kills the process, because this system has no signal that asks it to end.
func terminate(p *os.Process) error { return p.Kill() }

// quit does nothing, because this system has no signal that has a Go process write its
// goroutines.
func quit(*os.Process) error { return errors.ErrUnsupported }

//go:build !unix

package rig

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

// killGroup kills the process. There are no groups here.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// terminate kills, since no signal asks politely.
func terminate(p *os.Process) error { return p.Kill() }

//go:build unix

package rig

import (
	"os"
	"os/exec"
	"syscall"
)

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the process and its children. It ignores the error if none is left.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// quit asks a Go process to write its goroutines and to end.
func quit(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }

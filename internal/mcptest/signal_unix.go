//go:build unix

package mcptest

import "syscall"

// SignalStop has a process do nothing until SignalContinue.
const (
	SignalStop     = syscall.SIGSTOP
	SignalContinue = syscall.SIGCONT
)

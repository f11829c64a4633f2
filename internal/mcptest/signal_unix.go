//go:build unix

package mcptest

import "syscall"

// SignalStop suspends a process until SignalContinue.
const (
	SignalStop     = syscall.SIGSTOP
	SignalContinue = syscall.SIGCONT
)

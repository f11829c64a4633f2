//go:build !unix

package mcptest

import "syscall"

// SignalStop and SignalContinue do not exist on this system: sending one is an error.
const (
	SignalStop     = syscall.Signal(-1)
	SignalContinue = syscall.Signal(-1)
)

package main

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

// cpuTime is the CPU time that a process has used, in user and kernel. Its clock
// (clock_getcpuclockid(3): the complement of the pid above three bits, of which 2
// means all of the process's time) counts nanoseconds, where /proc/<pid>/stat has
// ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	clock := ^uint32(pid)<<3 | 2
	var t syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(t.Nano()), nil
}

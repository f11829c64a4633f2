//go:build linux

package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch      = unix.AUDIT_ARCH_AARCH64
	foreignNumbers = 0x40000000 // there are none
)

// refusedHere are calls that only this processor has: none.
func refusedHere() []uint32 { return nil }

//go:build unix

package e2e

import "syscall"

// limitFiles bounds how many files this process may have open.
func limitFiles(n uint64) error {
	limit := syscall.Rlimit{Cur: n, Max: n}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

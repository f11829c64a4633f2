package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// protect keeps other programs of the same user, such as those of stdio upstreams, from reading the
// environment and the memory of this process, and keeps both out of core dumps. Root may read them
// nevertheless.
func protect() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	none := unix.Rlimit{} // the programs inherit it: their environment has secrets, too
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return fmt.Errorf("RLIMIT_CORE: %w", err)
	}
	return nil
}

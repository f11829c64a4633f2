package mcptest

import "testing"

// Long leaves a test to make test-all: with -short, as in make test, it is skipped. Such a test waits
// for real leases or for the ends of processes, or does one thing thousands of times.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long") // make test-all, which is what CI calls, runs it
	}
}

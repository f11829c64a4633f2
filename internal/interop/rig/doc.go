// Package rig installs and runs third-party software and our own for the programs that test
// them together: internal/interop, internal/conformance and internal/bench.
//
// It finds the checkout, installs pinned npm and PyPI packages below its .cache folder,
// builds the gateway, and runs child processes. Each process has a bounded log, and is
// ended by its pid. It leaves the choice of programs and the expectations to its callers.
// One goroutine for each process copies its output; Stop waits for it.
package rig

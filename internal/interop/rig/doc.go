// Package rig sets up other people's software and ours for the programs that try
// them together: internal/interop, internal/conformance and internal/bench.
//
// It owns finding the checkout, installing pinned npm and PyPI packages below its
// .cache folder, building the gateway, and child processes: each is started with a
// bounded log, found by its pid and ended by it. It leaves what is run and what is
// expected to its callers. One goroutine per process copies its output; Stop waits
// for it.
package rig

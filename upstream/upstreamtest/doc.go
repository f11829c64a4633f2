// Package upstreamtest is the suite that every transport of package upstream must pass, in
// both eras.
//
// It owns the tests and what the server of internal/mcptest does in them. It leaves the
// hazards of a single transport to the tests of upstream.
package upstreamtest

// Package upstreamtest is the suite that every transport of package upstream must pass, in
// both eras, and the scripted MCP server that it runs against.
//
// It owns the server and its behaviours, good and bad. It leaves the hazards of a single
// transport to the tests of upstream. The server starts goroutines only for the requests
// that it receives.
package upstreamtest

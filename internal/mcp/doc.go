// Package mcp is the inner language of Gatehouse.
//
// Each client request becomes a Call and each answer a Reply, whatever its revision and
// transport. A Reply with an Ask replaces the requests that servers used to send to clients,
// so data flows one way only.
//
// It owns the vocabulary: methods, error codes, names, the caller. It leaves the notation on
// the wire to mcp/wire. It does no I/O and starts no goroutines that outlive a call of it.
package mcp

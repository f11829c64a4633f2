// Package mcp is the language that the inside of Gatehouse speaks.
//
// Every client request becomes one Call, every answer one Reply, whatever
// revision or transport it came by. A Reply that asks (Ask) stands for the
// requests that servers used to send to clients, so data flows one way only.
//
// It owns the words: methods, error codes, names, the caller. It leaves how they
// are written on a wire to mcp/wire, and does no I/O.
package mcp

// Package wire reads and writes the protocol. This is the JSON-RPC envelope, event streams, lines
// of stdio, the Mcp-* headers, and the differences between revisions (Revision).
//
// It owns syntax and limits, and it is the only package that names revisions. It leaves the
// meaning of messages to the packages below gateway and upstream. It starts no goroutines,
// and its only I/O is with the readers that it is given.
//
// The scanner is strict where parsers disagree, because the gateway must decide about
// exactly what the server behind it will read. In every object that the gateway reads (Scan
// for the envelope, CheckObject for params and the like) it refuses duplicate members,
// members that differ only in case, and escaped names. Nothing is ever decoded and encoded
// again, so text that is legal but unusual passes unchanged: lone surrogate escapes,
// numbers too large for a float. NameOK checks names that decide where a call goes or
// whether it may.
package wire

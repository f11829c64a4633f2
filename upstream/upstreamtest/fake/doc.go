// Package fake is an MCP server for the tests of upstream and of its rooms.
//
// A Server and an SSE have answers of a correct server, except for those that a test writes, byte
// by byte. The package also owns what these tests share: calls, Upstreams for a server, a token
// endpoint, certificates, and programs that are stdio servers. Well-behaved servers are those of
// internal/mcptest.
//
// Each server ends with its test.
package fake

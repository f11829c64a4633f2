// Package mcptest has a scripted MCP client, a scripted MCP server and a scripted OAuth
// issuer for tests.
//
// All of them use plain HTTP and JSON, do exactly what the test says, and show exactly what
// they received: headers, statuses, every message in order. They have their own code to
// read and write messages and to sign tokens, so that a mistake in the gateway's code does
// not cancel itself out; they share only the table of revisions. Package internal/e2e uses
// go-sdk for well-behaved peers.
//
// A Client uses Streamable HTTP, an SSEClient its predecessor HTTP+SSE.
//
// A Server and an Issuer run an httptest.Server; Close ends it and every handler. A Client
// starts no goroutines.
//
// A Network connects peers within a synctest bubble.
package mcptest

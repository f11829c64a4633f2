// Package mcptest is a scripted MCP client and a scripted MCP server for tests.
//
// Both speak plain HTTP and JSON of any revision, do exactly what the test says
// and show exactly what they got: headers, statuses, every message in its order.
// They read and write the wire with code of their own, so that a mistake in
// internal/mcp/wire does not cancel itself out; only the revision table is shared.
// What a well-behaved peer does is left to go-sdk, which internal/e2e uses too.
//
// A Server runs an httptest.Server; Close ends it and every handler. A Client
// starts nothing.
package mcptest

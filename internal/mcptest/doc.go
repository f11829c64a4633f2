// Package mcptest is a scripted MCP client, a scripted MCP server and a scripted OAuth
// issuer for tests.
//
// All of them speak plain HTTP and JSON, do exactly what the test says and show exactly
// what they got: headers, statuses, every message in its order. They read and write the
// wire, and sign tokens, with code of their own, so that a mistake in ours does not
// cancel itself out; only the revision table is shared. What a well-behaved peer does
// is left to go-sdk, which internal/e2e uses too.
//
// A Client speaks Streamable HTTP, an SSEClient what came before it.
//
// A Server and an Issuer run an httptest.Server; Close ends it and every handler. A
// Client starts nothing.
//
// A Network connects peers within a bubble of testing/synctest.
package mcptest

// Package upstream speaks to MCP servers. An Upstream is one of them, as an
// mcp.Handler: whatever transport and revision the server has, it takes Calls with
// the server's own names and answers Replies.
//
// It owns the dialect of the older revisions, the probe that tells which one a server
// speaks, the sessions that stateful servers keep for our clients, parked calls, and the
// server's health. It leaves the dialect of 2026-07-28 to upstream/stateless, how a server is
// reached to upstream/transport, public names and list caches to gateway/catalog, who may
// call what to policy, and how messages are written to mcp/wire.
//
//	pipeline.go   the stages that every call passes; package admit says which may go now
//	transports.go the table of transports
//	probe.go      which era a server speaks
//	stateless.go  connections for the dialect of 2026-07-28
//	stateful.go   the older ones: initialize, a session (session.go)
//	park.go       calls that wait for an answer of the user; package park has their table
//	pool.go       one session for each client session; package pool keeps them
//	keeper.go     what another replica needs to go on with such a session
//	health.go     the state of the server, for operators
//
// A small call starts no goroutine here. An Upstream starts one for each standing
// stream, for each parked call, for opening a session and for watching a process or an event
// stream; transports have their own. Close waits for all of them.
package upstream

// Package upstream speaks to MCP servers. An Upstream is one of them, as an
// mcp.Handler: whatever transport and revision the server has, it takes Calls with
// the server's own names and answers Replies.
//
// It owns the way of a call to the server, the probe that tells which era the server is of,
// its health, and what it tells clients and operators of failures. It leaves the two dialects,
// with their sessions, connections and parked calls, to upstream/stateful and
// upstream/stateless, how a server is reached to upstream/transport, public names and list
// caches to gateway/catalog, who may call what to policy, and how messages are written to
// mcp/wire.
//
//	pipeline.go   the stages that every call passes; package admit says which may go now
//	dialects.go   the two dialects, and what they have of the Upstream
//	probe.go      which era a server speaks
//	transports.go the table of transports
//	lives.go      what runs, and has to end before the Upstream is closed
//	former.go     calls that still wait at an Upstream which was replaced
//	status.go     the state of the server, for operators; failure.go what went wrong
//
// A small call starts no goroutine here. The dialects, the probe and transports have theirs;
// Close waits for all of them.
package upstream

// Package upstream speaks to MCP servers. An Upstream is an mcp.Handler for one server:
// whatever transport and revision the server uses, the Upstream takes Calls with the
// server's own names and returns Replies.
//
// It owns the pipeline of a call to the server, the probe that finds the server's era, the
// server's health, and how failures are reported to clients and operators. It leaves the
// two dialects, with their sessions, connections and parked calls, to upstream/stateful and
// upstream/stateless; how a server is reached to upstream/transport; public names and list
// caches to gateway/catalog; who may call what to policy; and the encoding of messages to
// mcp/wire.
//
//	pipeline.go   the stages that every call passes; package admit decides which calls may go now
//	dialects.go   the two dialects, and what the Upstream provides to them
//	probe.go      which era a server speaks
//	transports.go the table of transports
//	lives.go      exchanges and goroutines that must end before the Upstream is closed
//	unfold.go     tools that the server describes only in short
//	former.go     replaced Upstreams that still hold waiting calls
//	status.go     the state of the server, for operators
//	failure.go    what went wrong, for clients and operators
//
// A small call starts no goroutine in this package. The dialects, the probe and the
// transports start goroutines; Close waits for all of them.
package upstream

// Package session remembers what a stateful client needs between two requests.
//
// It owns the session records, their ids and keys ("user:id"), the event logs from which a broken
// stream is resumed, what is kept of a session's own sessions at servers (Kept), and the record of
// which tool definitions were shown in which session (Grants). It leaves open streams to
// gateway/front, the identity of users to auth, and the owner of a session to internal/cluster. A
// session belongs to one user: for all others its id does not exist. Everything in Redis is sealed
// (redis_seal.go).
//
// There are two stores: Memory, and Redis, where a session outlives the replica that owns it.
// Each runs a goroutine that ends idle sessions; Close stops it.
package session

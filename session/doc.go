// Package session remembers what a stateful client needs between two requests.
//
// It owns the session records, their ids and keys ("user:id"), the event logs from
// which a broken stream is resumed, what is kept of a session's own sessions at servers
// (Kept), and which definitions of tools were shown in which session (Grants). It leaves open
// streams to gateway/front, who a user is to auth, and which replica owns a session to
// internal/cluster. A session belongs to one user: to anybody else its id does not exist. What
// it keeps in Redis is sealed there (redis_seal.go).
//
// There are two stores: Memory, and Redis, where a session outlives the replica that owns it.
// Either runs a goroutine that ends idle sessions; Close stops it.
package session

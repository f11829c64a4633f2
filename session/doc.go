// Package session remembers what a stateful client needs between two requests.
//
// It owns the session records, their ids and keys ("user:id"), the event logs from
// which a broken stream is resumed, and which definitions of tools were shown in which
// session (Grants). It leaves open streams to gateway/front and who a user is to auth. A
// session belongs to one user: to anybody else its id does not exist. What it keeps in Redis
// is sealed there (redis_seal.go).
//
// There are two stores: Memory, and Redis for several replicas of the gateway, which can
// send each other messages too (mailbox.go). Either runs a goroutine that ends idle
// sessions, Redis one that listens to the other replicas and one that says that this one is
// there (presence.go); Close stops them.
package session

// Package session remembers what a stateful client needs between two requests.
//
// It owns the session records, their ids and keys ("user:id"), and the event logs
// from which a broken stream is resumed. It leaves open streams to gateway/front
// and who a user is to auth. A session belongs to one user: to anybody else its id
// does not exist.
//
// The memory store runs one goroutine, which ends idle sessions; Close stops it.
package session

// Package redisdb is the one way to Redis, or what speaks like it (Valkey): a client
// with short time limits, scripts, and the channels on which replicas hear each other.
//
// It owns the connection settings, what counts as trouble of Redis, and that nobody
// waits for a Redis that does not answer. It leaves what is kept there, and under
// which keys, to session and policy. A DB starts no goroutine of its own; a Bus runs
// one, which its Close ends.
package redisdb

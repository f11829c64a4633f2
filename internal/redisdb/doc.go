// Package redisdb is the one way to Redis, or what speaks like it (Valkey): a client
// with short time limits, and scripts.
//
// It owns the connection settings, what counts as trouble of Redis, and that nobody
// waits for a Redis that does not answer. It leaves what is kept there, and under
// which keys, to session, internal/cluster and policy. It starts no goroutine.
package redisdb

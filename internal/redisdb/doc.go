// Package redisdb is the gateway's client for Redis and compatible servers (Valkey):
// scripts with short time limits.
//
// It owns the connection settings, decides which errors mean that Redis is down, and makes
// operations fail at once while Redis does not answer. It leaves the keys and their values
// to session, internal/cluster and policy. It starts no goroutine.
package redisdb

// Package largeresults keeps the tool results that are too large for a model.
//
// It owns which results these are (Settings, of a server), how many are kept (Bounds, of the gateway)
// and the two stores: Memory, and Redis, which replicas share. A result belongs to a user, and to no
// session. What clients are sent in its place, and how they read the whole, is up to
// gateway/feature/results.
//
// It starts no goroutines but those of timers, which Close stops.
package largeresults

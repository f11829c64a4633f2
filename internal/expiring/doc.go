// Package expiring keeps small values for a while, in one place for all replicas. The place is
// Redis, or, for a process alone, a file or its memory.
//
// It owns how values are sealed and found there, when they end, and what happens in one step. It
// leaves to its callers what the values mean. It starts no goroutines.
package expiring

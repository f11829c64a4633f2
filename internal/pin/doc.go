// Package pin compares what servers say of themselves with what an operator has approved.
//
// It owns the lock file with its digests, the differences between two definitions as people
// read them, and the search for texts and names that deceive. It leaves to gateway/pinning what
// a difference means for clients. It does no I/O but for the lock file, and starts no goroutines.
package pin

// Package review compares the lock file of a configuration with what upstreams say now. An operator
// approves the differences.
//
// It owns a review: what differs, what is approved of it, and writing the file. It leaves the lock file
// and how definitions differ to internal/pin, and connecting to upstreams, whose definitions come to
// Collect, to its caller. It starts no goroutines.
package review

// Package review compares the lock file of a configuration with the upstreams' definitions now. An
// operator approves the differences.
//
// It owns a review: the differences, their approval, and writing the file. It leaves the lock file and
// how definitions differ to internal/pin, and connecting to upstreams to its caller, which passes
// definitions to Collect. It starts no goroutines.
package review

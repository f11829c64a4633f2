// Package ascaller is what operators see and do as a caller: lists as the caller gets them, with what
// the caller does not get and why, and tools that are tried.
//
// It owns the comparison of a list with what servers offer, and the call of a trial. It leaves who may
// ask to gateway/admin, lists and calls to the pipeline, and reasons to policy. It starts no
// goroutines.
package ascaller

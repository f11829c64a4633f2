// Package diagnosis says what is not well with a gateway, and what to do about it.
//
// It owns the rules by which facts become findings, their words and their order, and for how long
// findings are good. It leaves the facts that only the process has to gateway, and the form of the
// answer to gateway/admin. It starts no goroutines.
//
// A finding is about now: it is there as long as its cause is, and nobody has to take note of it.
package diagnosis

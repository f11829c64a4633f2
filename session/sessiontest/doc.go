// Package sessiontest is the test suite that every session.Store passes.
//
// It owns the tests of what a store promises. It leaves what is specific to one store to the
// tests of that store. The goroutines it starts end with the test.
package sessiontest

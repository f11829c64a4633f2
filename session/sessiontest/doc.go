// Package sessiontest is the suite that every session.Store passes.
//
// It owns what a store promises, as tests. What is special to a back end is tested
// beside it. The goroutines it starts end with the test.
package sessiontest

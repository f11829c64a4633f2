// Package archtest enforces the rules of this code base as tests: which package may import which,
// how packages are documented, and what is not allowed here.
//
// It owns the rules and the table of layers (layers_test.go). It leaves the purpose of a
// layer to the packages' own comments. Each rule is a function from a module to problems,
// with a test that shows that it can fail. A message says what to do. If a rule is wrong,
// change it here and give the reason. It starts no goroutines.
package archtest

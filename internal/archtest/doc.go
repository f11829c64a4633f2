// Package archtest keeps the rules of this code base as tests: who may import whom,
// how packages are documented, what has no place here.
//
// It owns the rules and the table of layers (layers_test.go). It leaves what the
// layers are for to the packages' own comments. Each rule is a function from a
// module to problems, and has a test that shows that it can fail. A message says
// what to do; when a rule is wrong, change it here, with the reason. It starts no
// goroutines.
package archtest

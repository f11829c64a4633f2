// Package e2e tests whole gateways from outside: real clients and servers of every era
// around a gateway that is assembled as cmd/gatehouse does it.
//
// The peers are go-sdk, for well-behaved clients and servers, and internal/mcptest, for
// exact bytes and bad behaviour. Begin with matrix_test.go: every revision with every other
// one, over every transport. The package contains only tests; it leaves details of one
// package to that package's tests.
package e2e

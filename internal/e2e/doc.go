// Package e2e tests whole gateways from outside: real clients and servers of every era
// around a gateway that is assembled as cmd/gatehouse does it.
//
// The peers are go-sdk, for well-behaved clients and servers, and internal/mcptest, for
// exact bytes and bad behaviour. Begin with matrix_test.go: every revision with every other
// one, over every transport. The package contains only tests; it leaves details of one
// package to that package's tests. Names that begin with P9/ or H/ refer to the statement
// of the protocol checklist, or the hazard, that a test covers.
package e2e

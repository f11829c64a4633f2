// Package e2e tests whole gateways from outside: real clients and real servers of every era
// around a gateway that is built as cmd/gatehouse builds it.
//
// It owns these tests and nothing else. It leaves the tests of single packages to those
// packages, and tests of the built program to cmd/gatehouse. The peers are go-sdk, for
// well-behaved clients and servers, and internal/mcptest, for exact bytes and bad
// behaviour. Start with matrix_test.go: every revision with every other one, over every
// transport. Names that begin with P9/ or H/ refer to the statement of the protocol
// checklist, or the hazard, that a test covers. Each test ends the goroutines that it
// starts.
package e2e

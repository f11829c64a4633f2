// Package e2e tests whole gateways from outside: real clients and real servers of
// every era around a gateway that is made as cmd/gatehouse makes it.
//
// The peers are go-sdk, for what a well-behaved client or server does, and
// internal/mcptest, for exact bytes and for bad behaviour. matrix_test.go is where to
// begin: every revision with every other one, over every transport. There is nothing but
// tests here. Names that begin with P9/ or H/ say which statement of the protocol
// checklist or which hazard a test shows.
package e2e

// Package admin answers operators: what happened and why, states, and a few actions.
//
// It owns these operations, with who may use each, its limits and the form of its answer; the API
// below /api/v1/, which serves them over HTTP; and its description in openapi.json, which a test
// compares with both. The console asks for the same operations. It leaves the listener to gateway,
// which also passes in the sources of answers, and recent records to internal/recent. It starts no
// goroutines.
package admin

// Package admin serves the API for operators: what happened and why, states, and a few actions.
//
// It owns the paths below /api/v1/, who may use them, the form of their answers, and their
// description in openapi.json, which a test compares with both. It leaves the listener to
// gateway, which also passes in what is asked for, and recent records to internal/recent. It
// starts no goroutines.
package admin

// Package events records what happens beside calls: sign-ins, sessions, credentials, accounts, reloads,
// changed lists, what is not approved, and requests that became no call.
//
// It owns which record an event gets, and how many records of what anybody can cause there are each
// second. It leaves the records of calls to gateway/observe, the members of records to
// internal/record, and where they go to internal/audit. It starts no goroutines.
package events

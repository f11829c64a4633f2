// Package accounts signs users in at servers with accounts of their own.
//
// It owns how the authorization server of a server is found and asked (discover.go, client.go,
// flow.go: RFC 9728, RFC 8414, OAuth 2.1), the links that users are sent to, and who may use them
// (ticket.go), the pages below /account, and the stage that asks users in mid-call (ask.go). It
// leaves what a server gave to auth/vault, who signs in at the gateway to auth/signin, and which
// addresses may be reached to internal/safehttp.
//
// It starts no goroutines.
package accounts

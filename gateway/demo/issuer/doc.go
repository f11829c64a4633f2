// Package issuer is an OAuth 2.1 authorization server for development: whoever opens its
// page can sign in as any of its users, without a password.
//
// It owns sign-in by browser (authorization code with PKCE), the other grants that the demo
// and tests need (refresh, client credentials, token exchange), the registration of
// clients, and its key, which is new at each start. Access tokens follow RFC 9068 and are
// bound to one resource (RFC 8707). It leaves what a user may do to policy, and the
// checking of tokens to auth, which treats it like any other issuer.
//
// It is not for production, and cannot get there by accident: New accepts only a loopback
// address, and requests from another machine or under another host name are refused. All
// state is in memory and bounded. It starts no goroutines.
package issuer

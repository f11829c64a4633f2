// Package issuer is an OAuth 2.1 authorization server for development: it lets
// whoever opens its page be any of its users, without a password.
//
// It owns sign-in by browser (authorization code with PKCE), the other grants that
// the demo and tests need (refresh, client credentials, token exchange), the
// registration of clients, and its key, which is fresh at each start. Access tokens
// follow RFC 9068 and are bound to one resource (RFC 8707). It leaves what a user may
// do to policy, and judging tokens to auth, which treats it as any other issuer.
//
// It is not for production, and made so that it cannot get there by accident: New
// takes a loopback address only, and a request from another machine or under another
// host name is refused. Everything is in memory and bounded. It starts no goroutines.
package issuer

// Package outbound holds the gateway's own credentials for upstreams.
//
// A Credentials authenticates the requests to one upstream: with a fixed header, with
// a token of the gateway (client credentials, RFC 6749 §4.4), with one of the user
// that was exchanged for the user's token (RFC 8693), or with that of the user's own account
// at the upstream, which auth/vault keeps. Tokens are cached, renewed before
// they expire by one request at a time, and asked for with growing pauses while that
// fails.
//
// The user's token is for the gateway alone. This is the one package that reads it, and
// it goes to the token endpoint of the issuer that issued it and nowhere else.
//
// It leaves who the caller is to auth, what an upstream's refusal means for a call to
// upstream, and which addresses may be reached to safehttp. A token is fetched on a
// goroutine that the callers wait for; Close ends those and waits for them.
package outbound

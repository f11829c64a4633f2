// Package auth identifies the caller of a request.
//
// In mode oauth it is an OAuth 2.1 resource server: a request needs an access token that a
// configured issuer made for this gateway. go-oidc verifies JWTs with a key set of this package,
// which is fetched in the background, survives failures of the issuer, drops withdrawn keys, and
// limits how often made-up tokens can cause a fetch. Opaque tokens are introspected (RFC 7662). A
// caller without a valid token learns where to get one (RFC 9728). If the gateway itself cannot
// judge a token, the answer is 503, because a 401 makes clients throw their token away. Mode none
// trusts every client that can reach the listener, and therefore serves loopback listeners only.
//
// It owns the proof of identity on a request and the refusal of requests without it; below
// it, the token is only in the Caller, not in the request. It leaves permissions to policy,
// what is stored under a caller's name to session, and the gateway's own credentials to
// auth/outbound.
//
// Run has a goroutine for each issuer and waits for them. The package starts no others.
package auth

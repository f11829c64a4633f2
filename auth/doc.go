// Package auth says who is calling.
//
// In mode oauth it is an OAuth 2.1 resource server: a request needs an access token that
// a configured issuer made for this gateway. A JWT is verified by go-oidc with a key set
// of our own, which is fetched in the background, keeps what it has when the issuer
// fails, lets withdrawn keys die, and cannot be made to ask the issuer more often by
// tokens that somebody made up. Opaque tokens are introspected (RFC 7662). Who has no
// good token is told where to get one (RFC 9728); where the gateway itself cannot judge,
// the answer is 503, since a 401 makes clients throw their token away. Mode none trusts
// everybody who can reach the listener, and therefore serves loopback listeners only.
//
// It owns the proof of identity on a request and what is refused without one; below it
// the token is in the Caller alone, not in the request any more. It leaves what a caller
// may do to policy, what is kept under a caller's name to session, and the gateway's own
// credentials to auth/outbound.
//
// Run has a goroutine for each issuer and waits for them. Nothing else is started.
package auth

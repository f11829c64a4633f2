// Package grants is the gateway's own authorization server (OAuth 2.1), for issuers where clients of
// MCP cannot register themselves.
//
// It stands in front of one issuer, the provider, where it is a client with one redirect URI. A user
// who comes with a client signs in there, says here whether the client may act for them, and the
// client gets tokens of the gateway: a JWT for the endpoint that it asked for, and a refresh token.
// Users are those of the provider: for policy and sessions it does not matter how they signed in.
//
//	authorize -> sign-in at the provider -> callback -> consent -> code -> token
//
// It owns requests for authorization, consent, codes, refresh tokens, the keys that sign, and the
// metadata. It leaves to auth/clientele who may be a client, to auth/signin how users sign in at an
// issuer, and to auth how tokens are checked. It starts no goroutines.
package grants

// Package vault keeps users' own accounts at servers. An account is the tokens with which the
// gateway calls a server in the name of one user.
//
// It owns grants by user and server, how they are sealed (sealed.go) with keys of its own (keys.go,
// transit.go), that one of all replicas refreshes a token ahead of its end (refresh.go), the state of
// each account (state.go), and that tokens are revoked when a user signs out. A token goes to the
// server that it was issued for and to the authorization server that issued it, and nowhere else.
//
// It leaves to internal/expiring where values are and when they end, to auth/accounts how a user signs
// in at a server, and to auth/outbound what a request gets. It starts a goroutine for each refresh,
// for each grant that the store could not take yet, and for each revocation; Close ends them and waits.
package vault

// Package cluster makes several replicas one gateway. It knows which replicas are there and
// which of them owns a home, and it forwards requests to the owner. A gateway alone is a
// cluster of one.
//
// A home is what a session keeps in the memory of one replica, its owner. For each home, Redis has
// the token of its owner; each claim makes a new token. A write for the home is compared with the
// token (the fence). Each replica has a lease in Redis and a listener for the other replicas (the
// link). The link uses TLS; the digest of the certificate is in the lease. Small requests take
// HTTP/1.1 on the link; streams and all other requests share one HTTP/2 connection.
//
// The package owns leases, tokens and the link. It leaves what a replica has of a session to
// internal/home, what is written under a fence to the session store, and what is known of a caller
// to auth.
//
// Start runs a goroutine that renews the lease, one that tests whether the other replicas can be
// reached, and those of the HTTP servers of the link. Close ends them and waits. Without Redis there
// are none.
package cluster

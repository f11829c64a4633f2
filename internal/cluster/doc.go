// Package cluster makes several replicas one gateway: who is there, whose a home is, and
// the link on which a request is forwarded to its owner. A gateway alone is a cluster of one.
//
// A home is what a session keeps in the memory of one replica, its owner. Redis knows the
// owner of each home, by a token that no other claim has; the token fences what is written
// for the home. Each replica has a lease in Redis, and a listener for the others (the link),
// over TLS with a certificate whose digest stands in the lease.
//
// It owns leases, homes and the link. It leaves to the session store what is written under
// a fence, to gateway/front what runs at home and which home a request has, and to auth
// what is known of a caller.
//
// Start runs one goroutine that renews the lease, one that keeps the homes in Redis, one
// that tries how the others can be reached, and those of an HTTP server. Close ends them
// and waits. Without Redis there are none.
package cluster

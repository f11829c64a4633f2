// Package cluster makes several replicas one gateway: it knows which are there and which of
// them owns a home, and forwards requests to the owner. A gateway alone is a cluster of one.
//
// A home is what a session keeps in the memory of one replica, its owner. Redis has the
// owner's token of each home, a new one for each claim; what is written for the home is
// compared with it (the fence). Each replica has a lease in Redis, and a listener for the
// others (the link), over TLS with a certificate whose digest is in the lease. Small requests
// take HTTP/1.1 on the link; streams, and all else, share one connection of HTTP/2.
//
// It owns leases, homes and the link. It leaves what is written under a fence to the session
// store, what runs at home and which home a request has to gateway/front, and what is known
// of a caller to auth.
//
// Start runs one goroutine that renews the lease, one that keeps the homes in Redis, one
// that tries whether the others can be reached, and those of an HTTP server. Close ends them
// and waits. Without Redis there are none.
package cluster

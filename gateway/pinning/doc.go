// Package pinning holds servers to the definitions that an operator has approved.
//
// It owns the section pinning and the guard of a server, which stands between the catalog and the
// server. So it applies to every list of the server that a client gets: the common one, that of a
// class of clients, of a session or of a user. It leaves the lock file and the comparison to
// internal/pin. It starts no goroutines.
package pinning

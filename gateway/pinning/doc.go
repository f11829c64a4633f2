// Package pinning holds servers to what an operator has approved of them.
//
// It owns the section pinning and the guard of a server, which stands between the catalog and
// the server. So it is in force for whatever list of the server any client gets: the common one,
// that of a class of clients, of a session or of a user. It leaves the lock file and the
// comparison to internal/pin. It starts no goroutines.
package pinning

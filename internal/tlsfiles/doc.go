// Package tlsfiles has the certificates of both sides, from files or, for listeners, ordered by ACME. Clients are
// those of services of the operator, such as Redis and receivers of audit records. Servers are the gateway's own
// listeners.
//
// It owns the keys ca_file, cert_file, key_file, client_ca_file, min_version and acme, which certificates are in use
// when a file changes, and orders with their proofs. It leaves to its callers which connections use TLS, when to look
// at files and orders again, and where what was issued is kept. It starts no goroutines.
package tlsfiles

// Package tlsfiles reads the files of certificates, of both sides. Clients are those of services of the operator,
// such as Redis and receivers of audit records. Servers are the gateway's own listeners.
//
// It owns the keys ca_file, cert_file, key_file, client_ca_file and min_version, and which certificates are
// in use when a file changes. It leaves to its callers which connections use TLS, and when to look at files
// again. It starts no goroutines.
package tlsfiles

// Package egress makes connections to servers and issuers as a network demands.
//
// It owns the keys "tls" and "proxy", tunnels through proxies, and TLS handshakes. It leaves to its
// callers which addresses may be dialled. It starts no goroutines.
package egress

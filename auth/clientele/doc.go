// Package clientele decides who may be a client of the gateway's own authorization server.
//
// It owns three kinds of clients: those that the configuration names, those that have the URL of a
// document about them as their id (client ID metadata documents, CIMD), and those that register
// themselves (RFC 7591, DCR). It owns which redirect URIs are valid and when two of them are the
// same. It leaves sign-in, consent and tokens to auth/grants.
//
// It starts no goroutines.
package clientele

// Package clientele decides who may be a client of the gateway's own authorization server.
//
// It owns three ways in: clients that the configuration names, clients whose id is the URL of a
// document about them (client ID metadata documents, CIMD), and clients that register themselves
// (RFC 7591, DCR). It owns what a redirect URI may look like and when two of them are the same. It
// leaves sign-in, consent and tokens to auth/grants.
//
// It starts no goroutines.
package clientele

// Package servers answers operators about servers, acts on servers for them, and keeps their timelines.
//
// It owns the switch with which an operator disables a server, and the last changes of each
// server's state. It leaves to upstream and gateway/catalog which state that is, and to gateway
// how a server is probed and reconnected. It starts no goroutines.
package servers

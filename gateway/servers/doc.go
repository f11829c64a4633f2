// Package servers is what operators do to servers, and what became of these over time.
//
// It owns the switch with which an operator disables a server, and the last changes of each
// server's state. It leaves to upstream and gateway/catalog which state that is, and to gateway
// how a server is probed and reconnected. It starts no goroutines.
package servers

// Package stateful is the dialect of clients with sessions (2024-11-05 to 2025-11-25), over Streamable
// HTTP and over HTTP+SSE.
//
// It owns the handshake that begins a session, the calls, notifications and answers in one, and the
// stream of a GET with its resumption. It leaves finding the session of a request to gateway/front, what
// runs in a session to gateway/front/live, and the answer to a call to gateway/front/exchange. It starts
// no goroutine.
//
//	stateful.go    the beginning of a session, and messages in it
//	get.go         the stream of a GET
package stateful

// Package doorway accepts the connections of clients. Its Listener bounds them, in total and of each
// address, and closes unused ones to make room for clients that make requests.
//
// It owns the addresses to listen at, of all kinds, the section connections, who counts as one client, also
// behind proxies, and which connection has to go. It leaves HTTP and TLS to net/http, the time limits of
// requests to its caller, and what a request may hold to gateway/front. It starts no goroutines. A Listener may
// be used concurrently.
package doorway

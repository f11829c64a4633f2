// Package doorway is where clients come in. Its Listener bounds their connections, in total and of each
// address, and closes unused ones to make room, so that those who only connect keep nobody out.
//
// It owns the section connections, who counts as one client, also behind proxies, and which connection has
// to go. It leaves HTTP to net/http, the time limits of requests to its caller, and what a request may hold
// to gateway/front. It starts no goroutines. A Listener may be used concurrently.
package doorway

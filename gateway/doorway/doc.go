// Package doorway is the listener for clients. It bounds their connections, in total and of each
// address, and closes unused ones to make room, so that those who only connect keep nobody out.
//
// It owns the section connections, who counts as one client, and which connection has to go. A server
// that serves a Listener calls State, Context and Watch, which tell it what became of a connection.
// It leaves the time limits of requests to the server, and what a request may hold to gateway/front.
// It starts no goroutines. A Listener may be used concurrently.
package doorway

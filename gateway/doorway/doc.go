// Package doorway is where clients come in. Its Listener bounds their connections, in total and of each
// address, and closes unused ones to make room, so that those who only connect keep nobody out. Its
// Server reads small plain requests with internal/http1, and has net/http serve all others.
//
// It owns the section connections, who counts as one client, also behind proxies, which connection has to
// go, and who reads a request. It leaves HTTP itself to these two, the time limits of requests to its
// caller, and what a request may hold to gateway/front. The Server runs one goroutine for each connection,
// and Shutdown waits for them. A Listener may be used concurrently.
package doorway

// Package sse2024 is HTTP+SSE, the transport of the first revision. A GET opens the one event stream of a
// session. Its first event names the path to which the client POSTs messages. Everything for the client
// comes on that stream, and the stream's end is the session's end (2024-11-05
// basic/transports#http-with-sse).
//
// Clients in the field negotiate the newer stateful revisions over it, too. They then get what these
// revisions have, such as elicitation, but no event ids.
//
// It owns the open streams, and what a client may have under way on one. It leaves the checks of
// requests, callers and other replicas to gateway/front, and what messages mean to
// gateway/front/stateful. It starts one goroutine for each request, and one for each answer that waits
// for room; the endpoint waits for them when it closes.
package sse2024

// Package front is the MCP endpoint for clients of every revision. It turns their requests into
// calls of the inner language, and replies into answers in the client's revision.
//
// It owns the choice of the revision and the transport, the owner of a request, here or at another
// replica, and clients without sessions. It leaves the identity of callers to auth, which has put the
// caller into the context, the exact path of the endpoint to gateway, records and event logs to session,
// and these to its rooms:
//
//	request        what a client has sent: the checks of HTTP requests, bodies, messages
//	stateful       clients with sessions; sse2024: their transport HTTP+SSE
//	exchange       the answer to a call
//	live           what runs in a session
//	stream         writing event streams
//	refuse         what errors look like
//
// Here are:
//
//	front.go       the endpoint: New, Behind, Drain, Close
//	post.go        one POST and its dialect
//	owner.go       the owner of a request, here or elsewhere
//	stateless.go   clients without sessions
//	stateful.go    the session of a request; batches
//
// It starts one goroutine for each member of a batch. Any other request that is answered with JSON
// starts none.
//
// The token of each request identifies its caller; an earlier token never does. A session, and
// everything in it, belongs to its user and to the client that began it; for all others it does not
// exist. A running call keeps its caller, but each further round of it is made as the caller of the
// token that came with the answers. A request without an end of its own, a GET or a subscription,
// ends when the token that opened it expires.
package front

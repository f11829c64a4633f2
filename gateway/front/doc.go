// Package front is the MCP endpoint for clients of every revision. It turns their requests into
// calls of the inner language, and replies into what the clients read.
//
// It owns the choice of the revision, both dialects of Streamable HTTP (stateless.go and
// stateful.go), HTTP+SSE, the checks of HTTP requests, and the resumption of event streams. It leaves
// the identity of callers to auth, which has put the caller into the context, the owner of a session
// to internal/cluster, what the owner holds of it to gateway/front/live, records and event logs to
// session, the answer to a call to gateway/front/exchange, writing event streams to
// gateway/front/stream, what errors look like to gateway/front/refuse, and the exact path of the
// endpoint to gateway.
//
//	front.go       the endpoint: New, Drain, Close
//	checks.go      checks without the body: method, Host, media types; cors.go, body.go
//	post.go        one POSTed message and its dialect; batch.go: several messages
//	owner.go       the owner of a request, here or elsewhere: forward.go
//	stateless.go   clients without sessions
//	stateful.go    clients with sessions: initialize.go, get.go
//	oldsse.go      HTTP+SSE; oldsse_message.go
//
// It starts one goroutine for each member of a batch, and one for each request over HTTP+SSE. The
// goroutines that write streams belong to gateway/front/stream, and those of listeners to
// gateway/front/live. Any other request that is answered with JSON starts none.
//
// The token of each request identifies its caller; an earlier token never does. A session, and
// everything in it, belongs to its user and to the client that began it; for anybody else it
// does not exist. A running call keeps its caller, but each further round of it is made as the
// caller whose token came with the answers. A request without an end of its own, a GET or a
// subscription, ends when the token that opened it expires.
package front

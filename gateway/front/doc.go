// Package front is the MCP endpoint for clients of every revision: it turns their requests
// into calls of the inner language, and replies into what the clients read.
//
// It owns the choice of the revision, both dialects of Streamable HTTP (stateless.go and
// stateful.go), HTTP+SSE, the checks of HTTP requests, the resumption of event streams, the
// rounds of a call that asks, and the sealing of requestState. Every call goes through
// Deps.Handler and nowhere else. It leaves the identity of callers to auth, which has put the
// caller into the context, the owner of a session to internal/cluster, what the owner holds of
// it to gateway/front/live, records and event logs to session, writing event streams to
// gateway/front/stream, what errors look like to gateway/front/refuse, and the exact path of
// the endpoint to gateway.
//
// A POST is answered with JSON until something needs a stream: a notification, a question, or
// a long wait.
//
//	front.go       the endpoint; lifecycle.go: Drain, Close
//	checks.go      checks without the body: method, Host, media types; cors.go, body.go
//	post.go        one POSTed message and its dialect; batch.go: several messages
//	owner.go       the owner of a request, here or elsewhere: forward.go, guests.go
//	stateless.go   headers.go, state.go (requestState), listen.go
//	stateful.go    initialize.go, ask.go (urlmode.go), get.go (resume.go)
//	oldsse.go      HTTP+SSE; oldsse_message.go
//	exchange.go    one request and its answer; progress.go, reply.go
//
// It starts one goroutine for each member of a batch, one for each request over HTTP+SSE, and
// one in Close, which ends with the last request and stream. The goroutines that write streams
// belong to gateway/front/stream, and those of listeners to gateway/front/live. Any other
// request that is answered with JSON starts none.
//
// The token of each request identifies its caller; an earlier token never does. A session, and
// everything in it, belongs to its user and to the client that began it; for anybody else it
// does not exist. A running call keeps its caller, but each further round of it is made as the
// caller whose token came with the answers. A request without an end of its own, a GET or a
// subscription, ends when the token that opened it expires.
package front

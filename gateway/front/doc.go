// Package front is the MCP endpoint for clients of every revision: it turns their
// requests into calls of the inner language, and replies back into what they read.
//
// It owns the choice of the revision, both dialects of Streamable HTTP (stateless.go
// and stateful.go), HTTP+SSE, the checks of HTTP requests, event streams and their
// resumption, the rounds of a call that asks, and the sealing of requestState. Every call
// goes through Deps.Handler and nowhere else. It leaves who is calling to auth, which has
// put the caller into the context, which replica owns a session to internal/cluster, what
// is held of it there to gateway/front/live, records and event logs to session, what errors
// look like to gateway/front/refuse, and the exact path of the endpoint to gateway.
//
// A POST is answered as JSON until something needs a stream: a notification, a
// question, or time.
//
//	front.go       the endpoint; lifecycle.go: Drain, Close
//	checks.go      what needs no body: method, Host, media types; cors.go, body.go
//	post.go        one POSTed message: in which dialect is it?  batch.go: several
//	owner.go       whose is it?  Served here, or by its owner: forward.go, guests.go
//	stateless.go   headers.go, state.go (requestState), listen.go
//	stateful.go    initialize.go, ask.go (urlmode.go), get.go (resume.go)
//	oldsse.go      HTTP+SSE; oldsse_message.go
//	exchange.go    one request and its answer; progress.go, reply.go
//
// Goroutines: one for each member of a batch and each request over HTTP+SSE. Requests that
// end as JSON start none.
//
// The token of each request says who calls, never that of an earlier one. A session,
// and all that it has, belongs to its user and to the client that began it; for anybody
// else it does not exist. A running call ends as it began, but each further round of it
// is made as the caller of the token that came with the answers. What has no end of its
// own, a GET or a subscription, ends with the token that it was opened with.
package front

// Package front is the MCP endpoint for clients of every revision: it turns their
// requests into calls of the inner language, and replies back into what they read.
//
// It owns the choice of the revision, both dialects of Streamable HTTP (stateless.go
// and stateful.go), HTTP+SSE, the checks of HTTP requests, event streams and their
// resumption, questions to clients, the sealing of requestState, and what runs for a
// session at its owner. Every call goes through Deps.Handler and nowhere else. It leaves
// who is calling to auth, which has put the caller into the context, which replica owns
// a session to internal/cluster, records and event logs to session, what errors look
// like to gateway/front/refuse, and the exact path of the endpoint to gateway.
//
// A POST is answered as JSON until something needs a stream: a notification, a
// question, or time.
//
//	front.go       the endpoint; EndSession, Close
//	checks.go      what needs no body: method, Host, media types; cors.go, body.go
//	post.go        one POSTed message: in which dialect is it?  batch.go: several
//	owner.go       whose is it?  Served here, or by its owner: forward.go, guests.go
//	stateless.go   headers.go, state.go (requestState), listen.go
//	stateful.go    initialize.go, ask.go (question.go, urlmode.go, roots.go), inflight.go,
//	               standing.go (the GET stream), subscribe.go, backlog.go, resume.go
//	oldsse.go      HTTP+SSE; oldsse_message.go
//	exchange.go    one request and its answer; progress.go, reply.go
//
// Goroutines: one for each burst of events that is written to a stream; for each
// session that has had a GET stream or a subscription one that listens, which
// EndSession and Close end; and one for each member of a batch. Requests that end as
// JSON start none.
//
// The token of each request says who calls, never that of an earlier one. A session,
// and all that it has, belongs to its user and to the client that began it; for anybody
// else it does not exist. A running call ends as it began, but each further round of it
// is made as the caller of the token that came with the answers. What has no end of its
// own, a GET or a subscription, ends with the token that it was opened with.
package front

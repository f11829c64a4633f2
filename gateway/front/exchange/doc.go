// Package exchange answers one request of a client that became a call.
//
// It owns the answer, which is JSON until something needs an event stream (a notification, a
// question, or a long wait), the rounds of a call that asks, the sealing of requestState, the calls
// that wait for answers, and what all exchanges share. Every call goes through Deps.Handler and
// nowhere else. It leaves reading requests to gateway/front/request, revisions and routing to
// gateway/front, what the owner of a session holds of it to gateway/front/live, writing event streams to
// gateway/front/stream, and what errors look like to gateway/front/refuse.
//
//	endpoint.go    what exchanges share; metrics.go
//	exchange.go    one request and its answer; progress.go, reply.go, listen.go
//	ask.go         questions to a client with a session
//	state.go       questions to a client without one: requestState, waiting calls
//
// It starts no goroutine. Those that write streams belong to gateway/front/stream.
package exchange

// Package live holds the running part of sessions in the memory of their owner.
//
// For each session it owns the calls in flight and the questions of their servers to its client,
// the GET streams and the events that wait for one, the client's roots, and the listener that
// receives changes on the session's behalf. It counts all calls and streams at the endpoint, in
// sessions or not, and those of each user. It leaves the record and the event log to session. It
// leaves writing to clients, and finding the owner of a session, to gateway/front.
//
// It starts one goroutine for each session that has had a GET stream or a subscription: the
// listener, which ends with the session's home or with StopListening. Running.Close starts one, which
// ends with the last request and stream.
package live

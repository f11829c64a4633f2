// Package live is what the owner of a session holds of it in memory.
//
// It owns, of each session, the calls in flight and the questions of their servers to its
// client, the GET streams and the events that wait for one, the client's roots, and the
// listener that hears on its behalf what changes. It leaves the record and the event log to
// session, and to gateway/front how a client is written to and who owns a session.
//
// It starts one goroutine for each session that has had a GET stream or a subscription: the
// listener, which EndSession and StopListening end. Another one gives up a session of a
// replica that stops.
package live

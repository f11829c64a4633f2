// Package stream writes event streams to clients.
//
// It owns the events that wait to be written, keep-alive comments, the time that a client
// has to take what is written, the connections of streams that last, and the names of
// streams and the ids of events in them. It leaves to gateway/front what stands in an event,
// who may open a stream, and when it ends. It imports nothing of it.
//
// Goroutines: one for each burst of events, which ends when all is written. A stream that
// lasts has two, which end with it: one that serves it, and one that reads its connection.
package stream

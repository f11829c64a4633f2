// Package stream writes event streams to clients.
//
// It owns the events that wait to be written, keep-alive comments, the time limit for a client
// to read, the connections of long-lived streams, the names of streams and the ids of their
// events. It leaves to gateway/front what an event contains, who may open a stream, and when
// it ends, and does not import that package.
//
// It starts one goroutine for each burst of events, which ends when everything is written. A
// long-lived stream has two more, which end with it: one serves it, and one reads its
// connection.
package stream

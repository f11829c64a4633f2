// Package shape writes a message of the protocol so that people can read it. It writes all of it,
// or its shape, in which the values that people, clients and servers chose stand by their type and
// size.
//
// It owns what of a message is a word of the protocol. It leaves to gateway/admin who sees which
// of both. It starts no goroutines.
package shape

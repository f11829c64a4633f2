// Package home holds what one replica has of each session. It is one object, from the first request
// that comes for the session to its end.
//
// It owns the only map by sessions, how many there may be of each user, which of them are in use,
// and when they end. It asks internal/cluster who owns a session, and its Store for what is kept of
// one. It leaves to others what a session holds: that is attached, and ended with the session.
//
//	opening -> open -> over
//
// A home is opened by its first user (Table.Use), who waits until it is known that this replica
// owns the session and until its record is read. It is over for one of the reasons of Why. Then
// no request may use it, everything attached is ended in reverse order and under no lock, and only
// after that can the same session have a new home here.
//
// Open starts a goroutine that ends unused homes and keeps the others in Redis; some ends have
// goroutines of their own. Close waits for all of them.
package home

package session

import "time"

// Place is where the session of an upstream is kept that belongs to a client.
type Place struct {
	// Key is the client's: Record.Key, or what a client without sessions has in its place.
	Key string
	// Server is the upstream, with all that divides sessions there.
	Server string
	// Idle is after what time unused it ends. 0 says with the client's session.
	Idle time.Duration
}

// Binding is the session of an upstream that belongs to a client.
type Binding struct {
	// Tag is another one for each such session; "" for none.
	Tag string
	// Value is what there is to know of it.
	Value string
}

// What Bindings answer where no Binding holds.
type Turn int

const (
	// Taken: there is a Binding.
	Taken Turn = iota
	// Yours: there is none, and whoever is told this makes one.
	Yours
	// Others: another replica makes one.
	Others
	// Over: the client's session has ended.
	Over
)

// Farewell is what becomes of the session of an upstream that a replica has no use for.
type Farewell int

const (
	// Kept: another replica goes on with it, or has ended it.
	Kept Farewell = iota
	// Alone: it is to be ended, and no other replica has used it.
	Alone
	// Last: it is to be ended, and others have used it.
	Last
)

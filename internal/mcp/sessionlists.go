package mcp

// SessionLists is news of the lists of a client's own session at a server: they may differ
// from what the server shows to others.
type SessionLists struct {
	// Session is the client's session (Call.Session).
	Session string
	// At identifies its session at the server, which may be replaced by another one.
	At string
	// Over says that the session at the server has ended, and its lists with it. The fields
	// below are then empty.
	Over bool
	// Lists are those that may have changed.
	Lists Lists
	// Told says that the server has said so. Otherwise something has happened after which they may
	// have changed without a notification.
	Told bool
	// Tool is the tool that was called then, by the server's own name; "" for something else.
	Tool string
}

package mcp

import "sync"

// CountedBytes is the size in bytes from which a message counts in a Memory. Smaller messages
// are bounded by the number of connections and calls.
const CountedBytes = 64 << 10

// Memory bounds the bytes of all large messages at a time. A user may use half of it, except
// the only user of a gateway without authentication; so may a server outside of calls.
type Memory struct {
	max int64

	mu      sync.Mutex // guards the fields below, and those of every Room
	held    int64
	users   map[string]int64 // of those who hold any, but for ""
	servers map[string]int64 // likewise, outside of calls
}

// NewMemory makes a Memory of max bytes.
func NewMemory(max int64) *Memory {
	return &Memory{max: max, users: make(map[string]int64), servers: make(map[string]int64)}
}

// Held returns the number of bytes in use.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Room is the share of a request, or of a connection to a server, in a Memory. Its creator
// frees it. A nil Room accepts everything, uncounted. Its methods are safe for concurrent
// use; do not copy a Room after first use.
type Room struct {
	memory *Memory
	user   string // "" for no particular user
	server string // "" for none, as of a request
	held   int64  // guarded by memory.mu, as is freed
	freed  bool
}

// Room makes an empty Room for a caller.
func (m *Memory) Room(c Caller) Room {
	if c.Issuer == "" {
		return Room{memory: m}
	}
	return Room{memory: m, user: c.User()}
}

// Outside makes an empty Room outside of calls. server is the server whose messages it is for, ""
// for none; user is the User of the caller that they are for, "" for no particular user. A nil
// Memory makes a nil Room.
func (m *Memory) Outside(server, user string) *Room {
	if m == nil {
		return nil
	}
	return &Room{memory: m, user: user, server: server}
}

// Take takes n more bytes. If there is no room for all of them, it takes none and reports
// false.
func (r *Room) Take(n int64) bool {
	if r == nil {
		return true
	}
	m := r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.freed { // its request is over, so they would never be given back
		return true
	}
	if m.held+n > m.max || r.user != "" && m.users[r.user]+n > m.max/2 ||
		r.server != "" && m.servers[r.server]+n > m.max/2 {
		return false
	}
	r.change(n)
	return true
}

// Hold takes n more bytes even if there is no room for them.
func (r *Room) Hold(n int64) {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.change(n)
}

// Give returns n bytes, at most as many as the Room has.
func (r *Room) Give(n int64) {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.change(-min(n, r.held))
}

// Adopt takes over the bytes of another Room of the same caller.
func (r *Room) Adopt(other *Room) {
	if r == nil || other == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	n := other.held
	other.change(-n)
	r.change(n)
}

// Free returns all bytes. Bytes taken later do not count.
func (r *Room) Free() {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.change(-r.held)
	r.freed = true
}

// change adds n bytes. The caller holds the memory's mu.
func (r *Room) change(n int64) {
	if n == 0 {
		return
	}
	r.held += n
	r.memory.held += n
	if r.user != "" {
		count(r.memory.users, r.user, n)
	}
	if r.server != "" {
		count(r.memory.servers, r.server, n)
	}
}

func count(of map[string]int64, key string, n int64) {
	if of[key] += n; of[key] == 0 {
		delete(of, key)
	}
}

// Meter takes room for a message while it is read into a growing buffer.
type Meter struct {
	// Length is the expected length of the message, 0 or less if it is unknown.
	Length int64

	read, held int64
}

// Read counts n more bytes; it reports false if there is no room for them.
func (m *Meter) Read(r *Room, n int) bool {
	m.read += int64(n)
	if m.read <= max(m.held, CountedBytes) {
		return true
	}
	want := 4 * max(m.read, CountedBytes) // as the memory that it is read into grows
	if m.Length >= m.read {
		want = min(want, m.Length)
	}
	if !r.Take(want - m.held) {
		if want = m.read; !r.Take(want - m.held) {
			return false
		}
	}
	m.held = want
	return true
}

// Next ends a message and begins the next one; `read` bytes of that have been read already. With
// keep, the ended message stays in the Room; else its bytes are returned.
func (m *Meter) Next(r *Room, read int, keep bool) {
	m.read = int64(read)
	if keep {
		m.held = 0
	} else if m.held > 0 && m.read <= CountedBytes {
		r.Give(m.held)
		m.held = 0
	}
}

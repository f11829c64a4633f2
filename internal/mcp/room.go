package mcp

import "sync"

// CountedBytes is the size from which a message counts in a Memory. What is smaller is
// bounded by the number of connections and calls.
const CountedBytes = 64 << 10

// Memory bounds the bytes that large messages hold at a time, those of all requests
// together. One user has at most half of it, but for the one user that there is without
// authentication; and so has what one server says outside of calls.
type Memory struct {
	max int64

	mu      sync.Mutex // guards the fields below, and those of every Room
	held    int64
	users   map[string]int64 // of those who hold any, but for ""
	servers map[string]int64 // likewise, outside of calls
}

// NewMemory makes a Memory of so many bytes.
func NewMemory(max int64) *Memory {
	return &Memory{max: max, users: make(map[string]int64), servers: make(map[string]int64)}
}

// Held returns how many bytes are held.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Room is what one request, or one connection to a server, holds of a Memory. Whoever made
// it frees it. A nil Room holds anything, uncounted. Its methods may be called concurrently;
// once one was, it is not copied.
type Room struct {
	memory *Memory
	user   string // "" for nobody in particular
	server string // "" for a request
	held   int64  // guarded by memory.mu, as is freed
	freed  bool
}

// Room makes an empty Room of a caller.
func (m *Memory) Room(c Caller) Room {
	if c.Issuer == "" {
		return Room{memory: m}
	}
	return Room{memory: m, user: c.User()}
}

// Outside makes an empty Room for what a server says outside of calls, to a user of whom
// User is the key, "" for nobody in particular. A nil Memory makes a nil Room.
func (m *Memory) Outside(server, user string) *Room {
	if m == nil {
		return nil
	}
	return &Room{memory: m, user: user, server: server}
}

// Take takes n bytes more, or none and reports false when there is no room for them.
func (r *Room) Take(n int64) bool {
	if r == nil {
		return true
	}
	m := r.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.freed { // its request is over, and nobody would give them back
		return true
	}
	if m.held+n > m.max || r.user != "" && m.users[r.user]+n > m.max/2 || r.server != "" && m.servers[r.server]+n > m.max/2 {
		return false
	}
	r.change(n)
	return true
}

// Give gives n bytes back, as far as it holds so many.
func (r *Room) Give(n int64) {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.change(-min(n, r.held))
}

// Adopt takes over what another Room of the same caller holds.
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

// Free gives everything back. What is taken after it does not count.
func (r *Room) Free() {
	if r == nil {
		return
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	r.change(-r.held)
	r.freed = true
}

// change is called with the memory's mu held.
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

// Meter takes room for a message while it is read into memory that grows.
type Meter struct {
	// Length is how long the message is going to be, 0 or less where nobody knows.
	Length int64

	read, held int64
}

// Read notes that n bytes more were read; false when there is no room for them.
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

// Next ends a message and begins the next one, of which so many bytes have been read
// already. A message that is kept stays in the Room; what is not kept is given back.
func (m *Meter) Next(r *Room, read int, keep bool) {
	m.read = int64(read)
	if keep {
		m.held = 0
	} else if m.held > 0 && m.read <= CountedBytes {
		r.Give(m.held)
		m.held = 0
	}
}

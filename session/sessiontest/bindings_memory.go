package sessiontest

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// MemoryBindings are Bindings of replicas in one process, for tests of who uses them.
type MemoryBindings struct {
	mu     sync.Mutex // guards the fields below
	places map[session.Place]*memoryBinding
	claims map[claim]bool
	// by place and key
	questions map[session.Place]map[string]memoryQuestion
	count     int // of replicas
	down      bool
}

type claim struct {
	at   session.Place
	what string
}

type memoryBinding struct {
	session.Binding
	maker, stander           *MemoryReplica
	making, standing, expire time.Time // until when
	used                     time.Time
	shared, over             bool
}

// MemoryReplica is one of the replicas.
type MemoryReplica struct {
	all  *MemoryBindings
	name string
}

// NewMemoryBindings makes an empty one.
func NewMemoryBindings() *MemoryBindings {
	return &MemoryBindings{places: make(map[session.Place]*memoryBinding), claims: make(map[claim]bool), questions: make(map[session.Place]map[string]memoryQuestion)}
}

// Replica makes a replica.
func (b *MemoryBindings) Replica() *MemoryReplica {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count++
	return &MemoryReplica{b, "r" + strconv.Itoa(b.count)}
}

// Self is the name of the replica.
func (r *MemoryReplica) Self() string { return r.name }

// Break has every step fail, or not any more.
func (b *MemoryBindings) Break(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = is
}

// Forget forgets everything.
func (b *MemoryBindings) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.places)
}

// begin begins a step with what is known of a place, nil for nothing.
func (r *MemoryReplica) begin(at session.Place) (*memoryBinding, func(), error) {
	b := r.all
	b.mu.Lock()
	if b.down {
		b.mu.Unlock()
		return nil, nil, session.ErrUnavailable
	}
	if m := b.places[at]; m != nil && !time.Now().Before(m.expire) {
		delete(b.places, at)
	}
	return b.places[at], b.mu.Unlock, nil
}

// Life is how long what nobody uses is kept.
func (r *MemoryReplica) Life(at session.Place) time.Duration {
	return max(at.Idle, 30*time.Minute) * 2
}

func (r *MemoryReplica) set(at session.Place, m *memoryBinding, life time.Duration) {
	m.expire = time.Now().Add(life)
	r.all.places[at] = m
}

// Take is RedisBindings.Take, and so on.
func (r *MemoryReplica) Take(_ context.Context, at session.Place, stale string, lease time.Duration) (session.Binding, session.Turn, error) {
	m, end, err := r.begin(at)
	if err != nil {
		return session.Binding{}, 0, err
	}
	defer end()
	switch {
	case m != nil && m.over:
		return session.Binding{}, session.Over, nil
	case m != nil && m.Tag != "" && m.Tag != stale:
		m.shared, m.used = true, time.Now()
		r.set(at, m, r.Life(at))
		return m.Binding, session.Taken, nil
	case m != nil && m.maker != nil && m.maker != r && time.Now().Before(m.making):
		return session.Binding{}, session.Others, nil
	}
	r.set(at, &memoryBinding{maker: r, making: time.Now().Add(lease)}, lease)
	return session.Binding{}, session.Yours, nil
}

// Put keeps a binding.
func (r *MemoryReplica) Put(_ context.Context, at session.Place, made session.Binding) (session.Binding, session.Turn, error) {
	m, end, err := r.begin(at)
	if err != nil {
		return session.Binding{}, 0, err
	}
	defer end()
	switch {
	case m != nil && m.over:
		return session.Binding{}, session.Over, nil
	case m != nil && m.Tag == made.Tag:
		return session.Binding{}, session.Yours, nil
	case m != nil && m.Tag != "":
		m.shared = true
		return m.Binding, session.Taken, nil
	}
	r.set(at, &memoryBinding{Binding: made, used: time.Now()}, r.Life(at))
	return session.Binding{}, session.Yours, nil
}

// Release gives a turn back.
func (r *MemoryReplica) Release(_ context.Context, at session.Place) error {
	m, end, err := r.begin(at)
	if err != nil {
		return err
	}
	defer end()
	if m != nil && m.Tag == "" && m.maker == r {
		delete(r.all.places, at)
	}
	return nil
}

// Keep says that a binding is used.
func (r *MemoryReplica) Keep(_ context.Context, at session.Place, made session.Binding, unused, stand time.Duration, gone string) (holds, stands string, err error) {
	m, end, err := r.begin(at)
	if err != nil {
		return "", "", err
	}
	defer end()
	now := time.Now()
	switch {
	case m != nil && m.over:
		return "", "", nil
	case m != nil && m.Tag != "" && m.Tag != made.Tag:
		return m.Tag, "", nil
	case m == nil && stand < 0, m != nil && m.Tag == "" && now.Before(m.making):
		return made.Tag, "", nil
	case m == nil || m.Tag == "":
		m = &memoryBinding{Binding: made}
	}
	if used := now.Add(-unused); used.After(m.used) {
		m.used = used
	}
	if stand > 0 && (m.stander == nil || m.stander == r || m.stander.name == gone || !now.Before(m.standing)) {
		m.stander, m.standing = r, now.Add(stand)
	} else if stand < 0 && m.stander == r {
		m.stander = nil
	}
	if stand > 0 {
		stands = m.stander.name
	}
	r.set(at, m, r.Life(at))
	return made.Tag, stands, nil
}

// End says that a binding is of no use.
func (r *MemoryReplica) End(_ context.Context, at session.Place, tag string) (session.Farewell, error) {
	m, end, err := r.begin(at)
	if err != nil {
		return session.Kept, err
	}
	defer end()
	switch {
	case m != nil && (m.over || m.Tag != "" && m.Tag != tag):
		return session.Kept, nil
	case at.Idle > 0 && (m == nil || time.Since(m.used) < at.Idle-min(time.Second, at.Idle/10)):
		return session.Kept, nil
	}
	delete(r.all.places, at)
	if at.Idle == 0 {
		r.set(at, &memoryBinding{over: true}, time.Minute)
	}
	if m != nil && m.shared {
		return session.Last, nil
	}
	return session.Alone, nil
}

// Claim claims something.
func (r *MemoryReplica) Claim(_ context.Context, at session.Place, what string) (bool, error) {
	_, end, err := r.begin(at)
	if err != nil {
		return false, err
	}
	defer end()
	c := claim{at, what}
	first := !r.all.claims[c]
	r.all.claims[c] = true
	return first, nil
}

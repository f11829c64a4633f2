package live

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Running counts the calls and streams at the endpoint, and signals when long-lived requests must end.
type Running struct {
	Requests   sync.WaitGroup  // with listeners and calls that wait for answers; see Begin
	Streams    sync.WaitGroup  // those of sessions; see BeginStream
	PerUser    *PerUser        // the long-lived streams of each user
	Draining   context.Context // ended by Drain: nothing long-lived begins, and subscriptions end
	Quiet      context.Context // ends when nothing runs any more, or may run any longer: streams end
	Drain      context.CancelFunc
	EndStreams context.CancelFunc // ends Quiet, even though requests run
	calls      atomic.Int64       // what Begin and More have counted in

	mu      sync.Mutex // guards closing
	closing bool
}

// NewRunning returns a Running with a bound on the long-lived streams of each user.
func NewRunning(streamsPerUser int) *Running {
	r := &Running{PerUser: NewPerUser(streamsPerUser)}
	r.Draining, r.Drain = context.WithCancel(context.Background())
	r.Quiet, r.EndStreams = context.WithCancel(context.Background())
	return r
}

// Begin counts a request in; Done counts it out. Begin returns false if the endpoint is closing:
// then only More counts.
func (r *Running) Begin() bool {
	if !r.count(&r.Requests) {
		return false
	}
	r.calls.Add(1)
	return true
}

// More counts something in even if the endpoint is closing. The caller is itself counted.
func (r *Running) More() {
	r.Requests.Add(1)
	r.calls.Add(1)
}

// Done counts out what Begin or More counted in.
func (r *Running) Done() {
	r.calls.Add(-1)
	r.Requests.Done()
}

// Calls returns how many calls and other requests run here, including those that wait for
// their user. Streams do not count.
func (r *Running) Calls() int64 { return r.calls.Load() }

func (r *Running) count(in *sync.WaitGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return false
	}
	in.Add(1)
	return true
}

// BeginStream counts a stream of a session in, unless its user is at the bound and makeRoom,
// which then takes one, fails. EndStream counts it out.
func (r *Running) BeginStream(c *mcp.Caller, makeRoom func() bool) *refuse.Refusal {
	if !r.count(&r.Streams) {
		return refuse.Closing()
	}
	if !r.PerUser.Take(c) && !makeRoom() {
		r.Streams.Done()
		return refuse.Streams(refuse.NoID)
	}
	return nil
}

// EndStream counts a stream of a session out.
func (r *Running) EndStream(c *mcp.Caller) {
	r.PerUser.Give(c)
	r.Streams.Done()
}

// Drains reports whether nothing long-lived may begin.
func (r *Running) Drains() bool { return r.Draining.Err() != nil }

// Close refuses new requests, and closes the channel when the last request and the last stream have
// ended. Streams end after the requests, or with EndStreams.
func (r *Running) Close() <-chan struct{} {
	r.Drain()
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() { // ends with the last request and the last stream
		r.Requests.Wait()
		r.EndStreams()
		r.Streams.Wait()
		close(ended)
	}()
	return ended
}

// PerUser counts the requests or streams of each user, over all sessions and clients. Without
// authentication there is one user, bounded only by the number of connections.
type PerUser struct {
	most   int // for one user; 0 for no bound
	seed   maphash.Seed
	shards [32]struct { // so that different users rarely share a lock
		mu  sync.Mutex     // guards has
		has map[string]int // only users who have any
	}
}

// NewPerUser returns a PerUser without users.
func NewPerUser(most int) *PerUser {
	p := &PerUser{most: most, seed: maphash.MakeSeed()}
	for i := range p.shards {
		p.shards[i].has = make(map[string]int)
	}
	return p
}

// Take counts one in. It returns false if the user is at the bound.
func (p *PerUser) Take(c *mcp.Caller) bool { return p.count(c, 1, p.most) }

// TakeMore is Take for something that replaces another one, which still counts until it has ended.
// With a client that reads nothing, that may take a while for everything of a user.
func (p *PerUser) TakeMore(c *mcp.Caller) bool { return p.count(c, 1, 2*p.most) }

// Give counts one out.
func (p *PerUser) Give(c *mcp.Caller) { p.count(c, -1, 0) }

func (p *PerUser) count(c *mcp.Caller, n, most int) bool {
	if p.most == 0 || c.Issuer == "" {
		return true
	}
	user := c.User()
	s := &p.shards[maphash.String(p.seed, user)%uint64(len(p.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.has[user] + n
	if n > 0 && now > most {
		return false
	}
	s.has[user] = now
	if now == 0 {
		delete(s.has, user)
	}
	return true
}

// Has returns the count of a user.
func (p *PerUser) Has(user string) int {
	s := &p.shards[maphash.String(p.seed, user)%uint64(len(p.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[user]
}

package home

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/cluster"
)

// Key names a session: its user and its id.
type Key struct {
	// User is mcp.Caller.User.
	User string
	// ID is the session's id, or an id that Derived has made.
	ID string
}

// derived begins the ids that stand for clients without sessions. No minted id begins with it.
const derived = "~"

// Derived returns the id that stands for a client without a session.
func Derived(text string) string { return derived + text }

// ParseKey splits "user:id". Ids have no colon, so the last one separates.
func ParseKey(name string) Key {
	at := strings.LastIndexByte(name, ':')
	return Key{name[:max(at, 0)], name[at+1:]}
}

// String is "user:id", the name of the session elsewhere (mcp.Call.Session). It is not a secret
// itself but contains one: do not log it.
func (k Key) String() string { return k.User + ":" + k.ID }

// Derived reports whether the key stands for a client without a session. It has no record.
func (k Key) Derived() bool { return strings.HasPrefix(k.ID, derived) }

// valid reports whether the id was minted or derived. No other one gets to Redis.
func (k Key) valid() bool { return k.User != "" && (k.Derived() || ValidID(k.ID)) }

// ValidID reports whether an id has the form of a session's id: 26 characters of base32.
func ValidID(id string) bool {
	return len(id) == 26 && !strings.ContainsFunc(id,
		func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '2' || r > '7') })
}

// Why is the reason for which a home is over.
type Why int

// Reasons. After the first four, the session is over everywhere.
const (
	Ended   Why = iota + 1 // by its client or an operator
	Idle                   // it was unused for too long
	Evicted                // it made room for another one of its user
	Gone                   // Redis does not have it any more
	Moved                  // another replica owns it, and has answered its client already: say nothing
	Left                   // this replica gives it to the next one
)

// Over reports whether the session is over everywhere, and not only here.
func (w Why) Over() bool { return w != 0 && w <= Gone }

type state int

const (
	opening state = iota
	open
	over
)

// Home holds what this replica has of one session.
type Home struct {
	key   Key
	name  string
	table *Table
	turn  chan struct{} // holds one token: taken to change what is kept of the session outside
	used  lastUse
	told  atomic.Int64  // the last use that Redis was told of
	gone  chan struct{} // closed when the home is over
	ended chan struct{} // closed when all that was attached has ended, too

	mu        sync.Mutex // guards the fields below
	state     state
	why       Why
	known     bool // the session exists, or did: a client may name one that never was
	finishing bool // the attached things are being ended
	owner     cluster.Owner
	uses      int
	holds     int
	parts     []any
	attached  []*attachment
}

type attachment struct{ end func(Why) }

// Key returns the session's key.
func (h *Home) Key() Key { return h.key }

// String is the key's string.
func (h *Home) String() string { return h.name }

// Over is closed when the home is over.
func (h *Home) Over() <-chan struct{} { return h.gone }

// IsOver reports whether the home is over.
func (h *Home) IsOver() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// Why returns the reason for which the home is over, 0 if it is not.
func (h *Home) Why() Why {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

// Unused returns how long the home has been unused.
func (h *Home) Unused() time.Duration {
	if used := h.used.Load(); used != expired {
		return h.table.clock() - time.Duration(used)
	}
	return math.MaxInt64
}

// Fence returns what a script must compare before it writes for the session: this replica's token in
// Redis, "" without Redis.
func (h *Home) Fence() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owner.Epoch
}

// Attach registers end for when the home is over, with the reason; it runs at once if it is. Of several,
// the last one attached runs first. detach undoes it, and reports whether end will not be called.
func (h *Home) Attach(end func(Why)) (detach func() bool) {
	a := &attachment{end}
	h.mu.Lock()
	if why := h.why; why != 0 {
		h.mu.Unlock()
		end(why)
		return func() bool { return false }
	}
	defer h.mu.Unlock()
	h.attached = append(h.attached, a)
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		at := slices.Index(h.attached, a)
		if at >= 0 {
			h.attached = slices.Delete(h.attached, at, at+1)
		}
		return at >= 0
	}
}

// Part returns the part of a home that has this type, nil if there is none.
func Part[T any](h *Home) *T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return part[T](h)
}

// Ensure returns the part of a home that has this type, and makes it if there is none. make must not
// use the home.
func Ensure[T any](h *Home, make func() *T) (p *T, made bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p = part[T](h); p == nil {
		p, made = make(), true
		h.parts = append(h.parts, p)
	}
	return p, made
}

func part[T any](h *Home) *T {
	for _, part := range h.parts {
		if p, ok := part.(*T); ok {
			return p
		}
	}
	return nil
}

// Hold keeps a home that is in use from ending unused, until Drop: a stream is open for it. A
// replica that stops gives the home up all the same.
func (h *Home) Hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds++
}

// Drop ends Hold.
func (h *Home) Drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touch(int64(h.table.clock()))
	h.holds--
}

// Again uses a home once more, on behalf of a user. A home that is over stays so.
func (h *Home) Again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.uses++
}

// Done ends a use (Table.Use). If this replica gives its homes up, this one is given up with its
// last use.
func (h *Home) Done() {
	h.mu.Lock()
	h.touch(int64(h.table.clock()))
	h.uses--
	leaves := h.uses == 0 && h.state == open && h.table.leaving.Load()
	h.mu.Unlock()
	if leaves {
		h.EndLater(Left)
	}
}

// inUse reports whether something runs for the home, or a stream is open. The caller holds mu.
func (h *Home) inUse() bool { return h.uses > 0 || h.holds > 0 }

// Take takes the turn to change what is kept of the session outside. Give gives it back. Errors:
// ErrUnavailable if ctx ends first.
func (h *Home) Take(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// Give gives the turn back.
func (h *Home) Give() { <-h.turn }

// End ends the session, and returns when everything attached has ended. If it is already over, End
// waits for that. Errors: ErrUnavailable if Redis cannot be told: the session then goes on. ErrMoved:
// it is over here only.
func (h *Home) End(ctx context.Context, why Why) error {
	if err := h.Take(ctx); err != nil {
		return err
	}
	err := h.end(ctx, why)
	if errors.Is(err, ErrMoved) {
		h.lose(true, Moved)
	}
	h.Give()
	if h.IsOver() {
		h.finish()
	}
	return err
}

// end closes the home, as far as the store agrees. The caller has the turn, and then calls finish.
func (h *Home) end(ctx context.Context, why Why) error {
	if h.IsOver() {
		return nil
	}
	if why.Over() && !h.key.Derived() {
		if err := h.table.store.End(ctx, h, why); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.close(why)
	return nil
}

// EndLater ends the home for a caller who may hold what the ends of attached things wait for. It is
// over at once; what is attached ends in a goroutine of the table. The store learns nothing of it.
func (h *Home) EndLater(why Why) {
	h.mu.Lock()
	first := h.close(why)
	h.mu.Unlock()
	if first {
		h.table.later(h.finish)
	}
}

// Refused says that Redis has refused a write of this replica for the session: another one owns it.
// A client without a session has no record there; for it, Redis is asked again.
func (h *Home) Refused() {
	if !h.key.Derived() {
		h.EndLater(Moved)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owner = h.owner.Doubted()
}

// close makes the home over, and reports whether it was not. The caller holds mu, and then calls
// finish.
func (h *Home) close(why Why) bool {
	if h.state == over {
		return false
	}
	h.state, h.why = over, why
	close(h.gone)
	return true
}

// finish ends what is attached to a home that is over. Of several callers, one does so and the
// others wait.
func (h *Home) finish() {
	h.mu.Lock()
	attached, why, owner, known := h.attached, h.why, h.owner, h.known
	first := !h.finishing
	h.attached, h.finishing = nil, true
	h.mu.Unlock()
	if !first {
		<-h.ended
		return
	}
	for _, a := range slices.Backward(attached) {
		a.end(why)
	}
	h.table.remove(h, owner, why, known)
	close(h.ended)
}

package accounts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth/vault"
	"github.com/gatehouse-mcp/gatehouse/internal/expiring"
)

// ticket says which user was asked to sign in at which server. Its sealed text ends a link: a link
// has no names that others could read or write. One sign-in uses it up.
type ticket struct {
	ID     string    `json:"id"`
	Issuer string    `json:"iss"`
	User   string    `json:"sub"`
	Server string    `json:"srv"`
	Until  time.Time `json:"exp"`
	// Before is how often the same call has asked before.
	Before int `json:"n,omitempty"`
}

// ticketBound tells tickets from all else that the key seals.
const ticketBound = "account link"

// Names in the store. What became of a ticket is kept a little longer than the ticket is good.
const (
	usedRoom    = "used "    // and the ticket
	refusedRoom = "refused " // and the ticket
	sinceRoom   = "since "   // and the account: when its user signed in last
	outcomeLife = longest + time.Minute
)

// outcome is the result of a call's question.
type outcome uint8

const (
	pending outcome = iota
	signedIn
	refused
)

var errTicket = errors.New("the ticket is not one of ours, or too old")

// account is the name of an account in the store, and among those who wait.
func account(who vault.Owner, server string) string {
	return who.Issuer + "\x00" + who.User + "\x00" + server
}

func (t ticket) owner() vault.Owner { return vault.Owner{Issuer: t.Issuer, User: t.User} }

// newTicket makes a ticket, and its text.
func (a *Accounts) newTicket(who vault.Owner, server string, before int) (ticket, string) {
	t := ticket{ID: rand.Text(), Issuer: who.Issuer, User: who.User, Server: server,
		Until: time.Now().Add(longest), Before: before}
	plain, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and a time always marshal
	}
	return t, a.Key.Seal(plain, ticketBound)
}

// openTicket reads the text of a ticket.
func (a *Accounts) openTicket(text string) (t ticket, err error) {
	plain, err := a.Key.Open(text, ticketBound)
	if err != nil || json.Unmarshal(plain, &t) != nil || !time.Now().Before(t.Until) {
		return ticket{}, errTicket
	}
	return t, nil
}

// used reports whether a ticket has been used.
func (a *Accounts) used(ctx context.Context, t ticket) (bool, error) {
	_, err := a.Store.Get(ctx, usedRoom+t.ID)
	if errors.Is(err, expiring.ErrNone) {
		return false, nil
	}
	return err == nil, err
}

// outcome returns the result of a ticket: its user may also have signed in by another one, or at the
// page of accounts.
func (a *Accounts) outcome(ctx context.Context, t ticket) (outcome, error) {
	value, err := a.Store.Get(ctx, sinceRoom+account(t.owner(), t.Server))
	if err == nil {
		var since time.Time
		if since.UnmarshalText(value) == nil && !since.Before(t.Until.Add(-longest)) {
			return signedIn, nil
		}
	}
	if err == nil || errors.Is(err, expiring.ErrNone) {
		if _, err = a.Store.Get(ctx, refusedRoom+t.ID); err == nil {
			return refused, nil
		}
	}
	if errors.Is(err, expiring.ErrNone) {
		err = nil
	}
	return pending, err
}

// arrived tells all who wait for a user that the user has signed in.
func (a *Accounts) arrived(ctx context.Context, who vault.Owner, server string) error {
	now, err := time.Now().MarshalText()
	if err == nil {
		err = a.Store.Put(ctx, sinceRoom+account(who, server), now, outcomeLife)
	}
	if err == nil {
		a.waiting.wake(account(who, server))
	}
	return err
}

// gaveUp tells the call that waits for a ticket that its user does not want to sign in.
func (a *Accounts) gaveUp(ctx context.Context, who vault.Owner, server, ticket string) error {
	err := a.Store.PutOf(ctx, account(who, ""), refusedRoom+ticket, nil, outcomeLife)
	if err == nil {
		a.waiting.wake(account(who, server))
	}
	return err
}

const (
	// patience is how long a call waits for its user before the client is asked again.
	patience = 20 * time.Second
	// look is how often it asks the store, where another replica says that the user is done.
	look = time.Second
)

// await waits for the result of a ticket, but not for long.
func (a *Accounts) await(ctx context.Context, t ticket) (outcome, error) {
	woken, leave := a.waiting.join(account(t.owner(), t.Server))
	defer leave()
	end, cancel := context.WithTimeout(ctx, min(patience, time.Until(t.Until)))
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		became, err := a.outcome(ctx, t)
		if became != pending || err != nil {
			return became, err
		}
		select {
		case <-woken:
		case <-tick.C:
		case <-end.Done():
			return pending, context.Cause(ctx) // nil if only patience has ended
		}
	}
}

// waiting are the calls of this replica that wait for their users, by account. There are no more than
// calls.
type waiting struct {
	mu  sync.Mutex // guards all
	all map[string]map[chan struct{}]struct{}
}

// join returns a channel that gets a value when an account has changed.
func (w *waiting) join(id string) (woken <-chan struct{}, leave func()) {
	mine := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = make(map[string]map[chan struct{}]struct{})
	}
	if w.all[id] == nil {
		w.all[id] = make(map[chan struct{}]struct{})
	}
	w.all[id][mine] = struct{}{}
	return mine, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.all[id], mine); len(w.all[id]) == 0 {
			delete(w.all, id)
		}
	}
}

func (w *waiting) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all[id] {
		select {
		case one <- struct{}{}:
		default: // it has not looked yet
		}
	}
}

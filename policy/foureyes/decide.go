package foureyes

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Errors of Decide: nothing was decided.
var (
	// ErrUnknown is also for calls on which the person may not decide.
	ErrUnknown = errors.New("no call with this id waits for your decision: it may have ended, or somebody has decided")
	ErrOwn     = errors.New("nobody decides on a call of their own")
	ErrAway    = errors.New("what waits cannot be reached in Redis: try again in a minute")
	ErrDigest  = errors.New("the digest is not that of the call: look at the call again")
)

// Shown is a call that waits. It must not be changed.
type Shown struct {
	*Call
	// Mine says that the person who asked may decide on it.
	Mine bool
}

// List returns the calls that wait, the oldest first: to an identified person those on which they
// may decide, to any other (nil) all of them. The error is ErrAway: calls at other replicas may be
// missing.
func (t *Table) List(ctx context.Context, to *mcp.Caller) (all []Shown, err error) {
	var calls []*Call
	if t.deps.Shared != nil {
		calls, err = t.deps.Shared.all(ctx)
	}
	t.mu.Lock()
	calls = slices.DeleteFunc(calls, func(c *Call) bool { return t.calls[c.ID] != nil })
	for _, w := range t.calls {
		if w.shown {
			calls = append(calls, w.call)
		}
	}
	t.mu.Unlock()
	slices.SortFunc(calls, func(a, b *Call) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	for _, c := range calls {
		if to == nil || t.mayDecide(c, to) == nil {
			all = append(all, Shown{c, to != nil})
		}
	}
	return all, err
}

// mayDecide returns nil if a person may decide on a call, else ErrUnknown or ErrOwn.
func (t *Table) mayDecide(c *Call, by *mcp.Caller) error {
	switch {
	case by.Subject == "" || !t.deps.May(c.Rules, by):
		return ErrUnknown
	case by.Issuer == c.Issuer && by.Subject == c.User:
		return ErrOwn
	}
	return nil
}

// Decide ends the wait of a call with the decision of a person who has seen a call with this
// digest. Errors: ErrUnknown, ErrOwn, ErrDigest, ErrAway.
func (t *Table) Decide(ctx context.Context, id, digest string, v Verdict) (*Call, error) {
	t.mu.Lock()
	w := t.calls[id]
	var c *Call
	if w != nil && w.shown {
		c = w.call
	}
	t.mu.Unlock()
	if w == nil && t.deps.Shared != nil {
		var err error
		if c, err = t.deps.Shared.find(ctx, id); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, ErrUnknown
	}
	if err := t.mayDecide(c, &v.By); err != nil {
		return nil, err
	}
	if digest != c.Digest {
		return nil, ErrDigest
	}
	v.By.Token = ""
	if w == nil || w.shared {
		first, err := t.deps.Shared.decide(ctx, c, v)
		if err != nil {
			return nil, err
		}
		if !first {
			return nil, ErrUnknown
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w == nil: // its replica will look
	case t.calls[id] == w:
		t.remove(w)
		w.over <- outcome{verdict: v}
	case !w.shared:
		return nil, ErrUnknown // another decision was faster, or it has ended
	}
	return c, nil
}

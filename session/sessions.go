package session

import (
	"context"
	"errors"
	"time"
)

// Known returns how many sessions this process holds.
func (s *sessions) Known() int { return int(s.known.Load()) }

// Listed is a session as operators see it.
type Listed struct {
	Record
	Used time.Time
}

// List returns the sessions that this process holds, in no order.
func (s *sessions) List() (all []Listed) {
	now, clock := time.Now(), int64(s.clock())
	for h := range s.all {
		r, used := h.record.Load(), h.used.Load()
		if r != nil && !h.over.Load() && used != expired {
			all = append(all, Listed{*r, now.Add(time.Duration(used - clock))})
		}
	}
	return all
}

// Get returns a session, without asking the place if it is held; see Store.
func (s *sessions) Get(ctx context.Context, user, id string) (Record, error) {
	if s.closed.Load() {
		return Record{}, ErrUnavailable
	}
	n := name{user, id}
	if h := s.get(n); h != nil {
		if r := s.current(h); r != nil {
			return *r, nil
		}
	}
	h, err := s.use(ctx, n)
	if err != nil {
		return Record{}, err
	}
	defer h.done()
	return *h.record.Load(), nil
}

// Update changes a session in one step; see Store.
func (s *sessions) Update(ctx context.Context, user, id string, edit func(*Record)) (Record, error) {
	h, err := s.use(ctx, name{user, id})
	if err != nil {
		return Record{}, err
	}
	defer h.done()
	old := h.record.Load()
	r := *old
	edit(&r)
	r.User, r.ID, r.Created, r.key = old.User, old.ID, old.Created, old.key
	if r.size() > MaxRecordBytes {
		return Record{}, ErrTooLarge
	}
	stored := r.owned() // edit may have kept its pointer
	err = s.tell(ctx, h, change{used: true, record: &stored})
	if err == nil || errors.Is(err, ErrUnsure) {
		h.record.Store(&stored)
	}
	if err != nil {
		return Record{}, err
	}
	return stored, nil
}

// Delete ends a session; see Store.
func (s *sessions) Delete(ctx context.Context, user, id string) error {
	h, err := s.take(ctx, name{user, id})
	if err != nil {
		return err
	}
	defer h.done()
	return s.end(ctx, h, s.count.deleted, -time.Millisecond)
}

// Log returns the event log of the sessions.
func (s *sessions) Log() EventLog { return eventLog{s} }

// close stops the goroutine without ending sessions, and reports whether this is the first call.
func (s *sessions) close() bool {
	s.ending.Lock()
	first := s.closed.CompareAndSwap(false, true)
	s.ending.Unlock()
	s.stop()
	s.done.Wait()
	if first {
		for h := range s.all {
			h.log.wake() // followers of its streams notice
		}
	}
	return first
}

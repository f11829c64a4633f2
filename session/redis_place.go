package session

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// Load reads a session from Redis (home.Store). Errors: ErrNotFound, also for a record that cannot be
// read, ErrMoved, ErrUnavailable.
func (s *Redis) Load(ctx context.Context, h *home.Home) error {
	k := h.Key()
	got, err := s.step(ctx, loadScript, k, h.Fence())
	if err != nil {
		return err
	}
	fields, _ := got.([]any)
	if len(fields) != 7 {
		return ErrNotFound
	}
	left, _ := fields[3].(int64)
	plain, ok := s.unseal(s.seals.records, "session", fields[0], k.User, k.ID)
	if !ok {
		return ErrNotFound
	}
	r, err := decode(plain, k)
	if err != nil {
		s.log.Warn("redis holds a session that cannot be read", failure.StoreForeign.Attr(), "error", err)
		return ErrNotFound
	}
	x := s.attach(h)
	x.writes = number(fields[1])
	h.WasUsed(s.cfg.Kept() - time.Duration(left)*time.Millisecond)
	s.restore(k, x, fields[2], fields[6], fields[4], fields[5])
	x.record.Store(r)
	return nil
}

// write writes what has changed in a session. A change that Redis does not confirm is written
// again with the next one.
func (s *Redis) write(ctx context.Context, h *home.Home, x *held, c change) error {
	k, script := h.Key(), tendScript
	var set []any // for each field: the number of the key, the name, the value
	if c.record != nil {
		value := encode(*c.record)
		if bytes.Equal(encode(*x.record.Load()), value) && !x.unsure {
			return nil
		}
		script, set = addScript, append(set, recordKey, "v", s.seals.records.SealBytes(value, k.User, k.ID))
	}
	for i, e := range c.events {
		at := strconv.FormatUint(e.seq, 10)
		if i == len(c.events)-1 {
			script, set = addScript, append(set, recordKey, "seq", at)
		}
		if e.kept {
			set = append(set, eventKey, c.stream+":"+at, s.seals.events.SealBytes(e.data, k.User, k.ID, c.stream, at))
		}
	}
	changed, more, deleted, err := s.takeChanges(k, x)
	if err != nil {
		return err
	}
	set = append(set, more...)
	unused := int64(-1)
	if c.used {
		unused = c.unused.Milliseconds()
	}
	x.writes++
	_, err = s.step(ctx, script, k, h.Fence(), append([]any{x.writes, unused, len(set) / 3},
		append(set, deleted...)...)...)
	if err != nil {
		x.log.putBack(changed)
	}
	if c.record != nil {
		x.unsure = errors.Is(err, ErrUnsure) || err != nil && x.unsure
	}
	return err
}

// Keep tells Redis of a session's last use and of its streams (home.Store). For a client without a
// session, it prolongs what is kept.
func (s *Redis) Keep(ctx context.Context, h *home.Home, unused time.Duration) error {
	if s.db.Full() { // it stays so until something is added
		s.room.Do(func() { _ = s.db.Room(ctx) })
	}
	if x := home.Part[held](h); x != nil {
		return s.write(ctx, h, x, change{used: true, unused: unused})
	}
	if home.Part[keptPart](h) == nil {
		return nil
	}
	_, err := s.step(ctx, unkeepScript, h.Key(), h.Fence(), "")
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// End removes a session from Redis (home.Store). One that was unused for too long may have outlived
// its token there: it is removed if no other replica has used it since.
func (s *Redis) End(ctx context.Context, h *home.Home, why home.Why) error {
	left := -time.Millisecond
	if why == home.Idle {
		left = s.cfg.Kept() - s.cfg.IdleTimeout
	}
	_, err := s.step(ctx, removeScript, h.Key(), h.Fence(), left.Milliseconds())
	if errors.Is(err, ErrNotFound) { // it may be the second attempt
		return nil
	}
	return err
}

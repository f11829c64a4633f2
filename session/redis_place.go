package session

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

// load reads a session from Redis. Errors: ErrNotFound, also for a record that cannot be read,
// ErrMoved, ErrUnavailable.
func (s *Redis) load(ctx context.Context, h *held) error {
	n := h.name
	got, err := s.step(ctx, loadScript, n)
	if err != nil {
		return err
	}
	fields, _ := got.([]any)
	if len(fields) != 7 {
		return ErrNotFound
	}
	left, _ := fields[3].(int64)
	plain, ok := s.open(s.seals.records, "session", fields[0], n.user, n.id)
	if !ok {
		return ErrNotFound
	}
	r, err := decode(plain, n)
	if err != nil {
		s.log.Warn("redis holds a session that cannot be read", failure.StoreForeign.Attr(), "error", err)
		return ErrNotFound
	}
	h.writes = number(fields[1])
	used := int64(s.clock() - s.cfg.Kept() + time.Duration(left)*time.Millisecond)
	h.used.Store(used)
	h.told.Store(used)
	s.restore(h, fields[2], fields[6], fields[4], fields[5])
	h.record.Store(r)
	return nil
}

// write writes what has changed in a session. A change that Redis does not confirm is written
// again with the next one.
func (s *Redis) write(ctx context.Context, h *held, c change) error {
	n, script := h.name, tendScript
	var set []any // for each field: the number of the key, the name, the value
	if c.record != nil {
		value := encode(*c.record)
		if bytes.Equal(encode(*h.record.Load()), value) && !h.unsure {
			return nil
		}
		script, set = addScript, append(set, recordKey, "v", s.seals.records.SealBytes(value, n.user, n.id))
	}
	if c.seq > 0 {
		at := strconv.FormatUint(c.seq, 10)
		script, set = addScript, append(set, recordKey, "seq", at)
		if c.kept {
			set = append(set, eventKey, c.stream+":"+at, s.seals.events.SealBytes(c.data, n.user, n.id, c.stream, at))
		}
	}
	changed, more, deleted, err := s.takeChanges(h)
	if err != nil {
		return err
	}
	set = append(set, more...)
	unused, used := int64(-1), h.used.Load()
	if c.used && used != expired {
		unused = time.Duration(int64(s.clock()) - used).Milliseconds()
	}
	h.writes++
	_, err = s.step(ctx, script, n, append([]any{h.writes, unused, len(set) / 3}, append(set, deleted...)...)...)
	if err != nil {
		h.log.putBack(changed)
	} else if unused >= 0 {
		h.told.Store(used)
	}
	if c.record != nil {
		h.unsure = errors.Is(err, ErrUnsure) || err != nil && h.unsure
	}
	return err
}

// remove ends a session in Redis.
func (s *Redis) remove(ctx context.Context, h *held, left time.Duration) error {
	_, err := s.step(ctx, removeScript, h.name, left.Milliseconds())
	return err
}

// swept does what a sweep does apart from any session.
func (s *Redis) swept(ctx context.Context) {
	s.kept.sweep(ctx)
	if s.db.Full() { // otherwise nobody might notice that it is not full any more
		_ = s.db.Room(ctx)
	}
}

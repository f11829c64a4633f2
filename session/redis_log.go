package session

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

// fetch reads the data of events from Redis. A stream with an event that no replica wrote, or that
// Redis has lost, counts as missing.
func (s *Redis) fetch(ctx context.Context, h *home.Home, stream string, events []Event) error {
	k := h.Key()
	var fields []any
	for _, e := range events {
		fields = append(fields, stream+":"+strconv.FormatUint(e.Seq, 10))
	}
	got, err := s.step(ctx, fetchScript, k, h.Fence(), fields...)
	if err != nil {
		return err
	}
	values, _ := got.([]any)
	if len(values) != len(events) {
		return ErrNotFound
	}
	for i, e := range events {
		data, ok := s.unseal(s.seals.events, "event", values[i], k.User, k.ID, stream, strconv.FormatUint(e.Seq, 10))
		if !ok {
			return ErrNotFound
		}
		events[i].Data = data
	}
	return nil
}

// keptStream is the sealed part of a stream in Redis.
type keptStream struct {
	description
	Events int `json:"events,omitempty"` // how many there are
}

// takeChanges returns what Redis is about to be told, also in the form that the script write
// expects. putBack restores it if that fails. It fails with errDropped: then nothing is known of the
// streams, and nothing may be written.
func (s *Redis) takeChanges(k home.Key, x *held) (c changes, set, deleted []any, err error) {
	x.log.mu.Lock()
	defer x.log.mu.Unlock()
	if x.log.closed {
		return changes{}, nil, nil, errDropped
	}
	c, *x.log.changes = *x.log.changes, changes{}
	for name := range c.streams {
		st := x.log.byName[name]
		if st == nil {
			deleted = append(deleted, streamKey, name)
			continue
		}
		value, _ := json.Marshal(keptStream{st.description, len(st.events)}) // cannot fail
		set = append(set, streamKey, name, s.seals.streams.SealBytes(value, k.User, k.ID, name))
	}
	for _, e := range c.events {
		deleted = append(deleted, eventKey, e.stream+":"+strconv.FormatUint(e.seq, 10))
	}
	if len(deleted) > 0 {
		set = append(set, recordKey, "past", strconv.FormatUint(x.log.past, 10))
	}
	return c, set, deleted, nil
}

// restore rebuilds the streams of a session from what Redis has: the newest positions, of all and
// of forgotten streams, the streams, and the events with their lengths. If some events of a stream
// are missing, it has lost all of them. Streams that have ended are kept for the full time again.
func (s *Redis) restore(k home.Key, x *held, seq, past, streams, events any) {
	l := &x.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // dropped since: the room would never be given back
		return
	}
	l.seq, l.past = number(seq), number(past)
	l.byName = make(map[string]*stream)
	count := make(map[string]int)
	for name, value := range pairs(streams) {
		var kept keptStream
		plain, ok := s.unseal(s.seals.streams, "stream", value, k.User, k.ID, name)
		if !ok || json.Unmarshal(plain, &kept) != nil {
			continue
		}
		touched := int64(s.clock()) - int64(l.seq-kept.Last) // in the order of their last events
		l.byName[name], count[name] = &stream{description: kept.description, touched: touched}, kept.Events
	}
	for field, value := range pairs(events) {
		colon := strings.LastIndexByte(field, ':')
		at, err := strconv.ParseUint(field[colon+1:], 10, 64)
		st := l.byName[field[:max(colon, 0)]]
		size, _ := value.(int64)
		if err != nil || st == nil || at <= st.Dropped || at > st.Last {
			continue // its writer lost it, or it belongs to no stream
		}
		e := logged{Event{Seq: at}, max(int(size)-seal.Overhead, 0)}
		st.events = append(st.events, e)
		st.bytes += e.size
		l.room.Hold(int64(e.size))
	}
	for name, st := range l.byName {
		slices.SortFunc(st.events, func(a, b logged) int { return cmp.Compare(a.Seq, b.Seq) })
		if len(st.events) < count[name] {
			l.dropAll(name, st)
		}
	}
}

// pairs iterates over a result of HGETALL.
func pairs(reply any) func(yield func(name string, value any) bool) {
	return func(yield func(string, any) bool) {
		list, _ := reply.([]any)
		for i := 0; i+1 < len(list); i += 2 {
			if name, _ := list[i].(string); !yield(name, list[i+1]) {
				return
			}
		}
	}
}

// number parses a number from Redis; 0 for none.
func number(reply any) uint64 {
	text, _ := reply.(string)
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}

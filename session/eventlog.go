package session

import (
	"bytes"
	"context"
	"errors"
)

// eventLog is the EventLog of the held sessions. Only a session's owner writes and follows its
// streams, so it knows all of them. For sessions in a place, the events themselves are only
// there.
type eventLog struct{ s *sessions }

// Append adds an event; see EventLog. An event that cannot be kept leaves a gap.
func (l eventLog) Append(ctx context.Context, key, stream string, data []byte) (uint64, error) {
	return l.add(ctx, key, stream, nil, data, false)
}

// Begin adds the first event of a stream that answers a request; see EventLog.
func (l eventLog) Begin(ctx context.Context, key, stream string, request, data []byte) (uint64, error) {
	return l.add(ctx, key, stream, request, data, false)
}

// Finish adds the last event; see EventLog.
func (l eventLog) Finish(ctx context.Context, key, stream string, data []byte) (uint64, error) {
	return l.add(ctx, key, stream, nil, data, true)
}

// with calls do with a session. A session that is dropped meanwhile, because another replica
// owns it now, says nothing of its streams: what becomes of it decides.
func (l eventLog) with(ctx context.Context, key string, do func(h *held) error) error {
	for {
		h, err := l.s.take(ctx, nameOf(key))
		if err != nil {
			return err
		}
		err = do(h)
		h.done()
		if !errors.Is(err, errDropped) {
			return err
		}
	}
}

func (l eventLog) add(ctx context.Context, key, stream string, request, data []byte, last bool) (seq uint64, err error) {
	e := logged{size: len(data)}
	if l.s.place == nil {
		e.Data = bytes.Clone(data)
	}
	err = l.with(ctx, key, func(h *held) error {
		at, kept, err := h.log.add(stream, request, e, last, int64(l.s.clock()))
		if err != nil {
			return err
		}
		if err := l.s.tell(ctx, h, change{stream: stream, seq: at, data: data, kept: kept}); err != nil {
			h.log.lose(stream)
			return err
		}
		seq = at
		return nil
	})
	return seq, err
}

// Request returns the id of the request that a stream answers; see EventLog.
func (l eventLog) Request(ctx context.Context, key, stream string) (request []byte, err error) {
	err = l.with(ctx, key, func(h *held) (err error) {
		request, err = h.log.answers(stream, int64(l.s.clock()))
		return err
	})
	return request, err
}

// End ends a stream; see EventLog.
func (l eventLog) End(ctx context.Context, key, stream string) error {
	return l.with(ctx, key, func(h *held) error {
		if err := h.log.end(stream, int64(l.s.clock())); err != nil || !h.log.changed() {
			return err
		}
		return l.s.tell(ctx, h, change{})
	})
}

// Read returns the events after a position; see EventLog.
func (l eventLog) Read(ctx context.Context, key, stream string, after uint64) (events []Event, ended bool, more <-chan struct{}, err error) {
	err = l.with(ctx, key, func(h *held) (err error) {
		events, ended, more, err = h.log.read(stream, after, int64(l.s.clock()))
		if l.s.place != nil && len(events) > 0 {
			if failed := l.s.place.fetch(ctx, h, stream, events); failed != nil {
				events, ended, more, err = nil, false, nil, failed
			}
		}
		return err
	})
	return events, ended, more, err
}

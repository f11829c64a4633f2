package session

import (
	"bytes"
	"context"
	"errors"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
)

// eventLog is the EventLog of the held sessions. Only a session's owner writes and follows its
// streams, so it knows all of them. For sessions in a place, the events themselves are only
// there.
type eventLog struct{ s *sessions }

// Append adds events; see EventLog. Events that cannot be kept leave a gap.
func (l eventLog) Append(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	return l.add(ctx, h, stream, nil, data, false)
}

// Begin adds the first events of a stream that answers a request; see EventLog.
func (l eventLog) Begin(ctx context.Context, h *home.Home, stream string, request []byte,
	data ...[]byte) (uint64, error) {
	return l.add(ctx, h, stream, request, data, false)
}

// Finish adds the last events; see EventLog.
func (l eventLog) Finish(ctx context.Context, h *home.Home, stream string, data ...[]byte) (uint64, error) {
	return l.add(ctx, h, stream, nil, data, true)
}

// with calls do with a session, and gives its turn back. A session that is over here, because another
// replica owns it now, says nothing of its streams: what becomes of it there decides.
func (l eventLog) with(ctx context.Context, h *home.Home, do func(*held) error) error {
	x, err := take(ctx, h)
	if err != nil {
		return err
	}
	defer h.Give()
	if err = do(x); errors.Is(err, errDropped) {
		return over(h)
	}
	return err
}

func (l eventLog) add(ctx context.Context, h *home.Home, stream string, request []byte, data [][]byte,
	last bool) (seq uint64, err error) {
	err = l.with(ctx, h, func(x *held) error {
		c := change{stream: stream, events: make([]written, len(data))}
		for i, data := range data {
			e := logged{size: len(data)}
			if l.s.place == nil {
				e.Data = bytes.Clone(data)
			}
			at, kept, err := x.log.add(stream, request, e, last && i == len(c.events)-1, int64(l.s.clock()))
			if err != nil {
				return err
			}
			seq, c.events[i] = at, written{at, data, kept}
		}
		err := l.s.tell(ctx, h, x, c)
		if err != nil {
			x.log.lose(stream)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return seq, nil
}

// Request returns the id of the request that a stream answers; see EventLog.
func (l eventLog) Request(ctx context.Context, h *home.Home, stream string) (request []byte, err error) {
	err = l.with(ctx, h, func(x *held) (err error) {
		request, err = x.log.answers(stream, int64(l.s.clock()))
		return err
	})
	return request, err
}

// End ends a stream; see EventLog.
func (l eventLog) End(ctx context.Context, h *home.Home, stream string) error {
	return l.with(ctx, h, func(x *held) error {
		if err := x.log.end(stream, int64(l.s.clock())); err != nil || !x.log.changed() {
			return err
		}
		return l.s.tell(ctx, h, x, change{})
	})
}

// Read returns the events after a position; see EventLog.
func (l eventLog) Read(ctx context.Context, h *home.Home, stream string, after uint64) (events []Event, ended bool,
	more <-chan struct{}, err error) {
	err = l.with(ctx, h, func(x *held) (err error) {
		events, ended, more, err = x.log.read(stream, after, int64(l.s.clock()))
		if l.s.place != nil && len(events) > 0 {
			if failed := l.s.place.fetch(ctx, h, stream, events); failed != nil {
				events, ended, more, err = nil, false, nil, failed
			}
		}
		return err
	})
	return events, ended, more, err
}

package session

import (
	"bytes"
	"context"
)

// memoryLog is the EventLog of a Memory. The logs hang on the sessions themselves,
// so that no log outlives its session.
type memoryLog struct{ m *Memory }

// Append adds an event; see EventLog.
func (l memoryLog) Append(_ context.Context, key, stream string, data []byte) (uint64, error) {
	return l.add(key, stream, nil, data, false)
}

// Begin adds the first event of a stream that answers a request; see EventLog.
func (l memoryLog) Begin(_ context.Context, key, stream string, request, data []byte) (uint64, error) {
	return l.add(key, stream, request, data, false)
}

// Finish adds the last event; see EventLog.
func (l memoryLog) Finish(_ context.Context, key, stream string, data []byte) (uint64, error) {
	return l.add(key, stream, nil, data, true)
}

func (l memoryLog) add(key, stream string, request, data []byte, last bool) (uint64, error) {
	s, err := l.streams(key)
	if err != nil {
		return 0, err
	}
	seq, _, err := s.add(stream, request, logged{size: len(data), data: bytes.Clone(data)}, last, l.m.now())
	return seq, err
}

// Request returns what a stream answers; see EventLog.
func (l memoryLog) Request(_ context.Context, key, stream string) ([]byte, error) {
	s, err := l.streams(key)
	if err != nil {
		return nil, err
	}
	return s.answers(stream, l.m.now())
}

// End says that nothing more comes; see EventLog.
func (l memoryLog) End(_ context.Context, key, stream string) error {
	s, err := l.streams(key)
	if err != nil {
		return err
	}
	return s.end(stream, l.m.now())
}

// Read returns the events after a position; see EventLog.
func (l memoryLog) Read(_ context.Context, key, stream string, after uint64) ([]Event, bool, <-chan struct{}, error) {
	s, err := l.streams(key)
	if err != nil {
		return nil, false, nil, err
	}
	list, ended, more, err := s.read(stream, after, l.m.now())
	var events []Event
	for _, e := range list {
		events = append(events, Event{Seq: e.seq, Data: e.data})
	}
	return events, ended, more, err
}

// streams finds the logs of a session, without restarting its idle time.
func (l memoryLog) streams(key string) (*streams, error) {
	if l.m.closed.Load() {
		return nil, ErrUnavailable
	}
	user, id := splitKey(key)
	s := l.m.shard(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entries[name{user, id}]
	if e == nil || !e.used.alive(l.m.now(), l.m.cfg.IdleTimeout) {
		return nil, ErrNotFound
	}
	return &e.streams, nil
}

package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/seal"
)

const (
	// endedBefore is what the time of a stream that has ended is moved by: it stands
	// before all that are open, in the order of their ends.
	endedBefore = 1_000_000_000_000_000
	// maxMissed bounds the streams of which it is remembered that an event could not be
	// kept, and those that could not be ended.
	maxMissed = 10_000
)

// missedStream is a stream of a session.
type missedStream struct{ key, stream string }

// redisLog is the EventLog of a Redis.
type redisLog struct{ s *Redis }

func (l redisLog) keys(n name, stream string) (session, index, meta, events string) {
	return l.s.keyOf("s", n), l.s.keyOf("i", n), l.s.keyOf("m", n, stream), l.s.keyOf("e", n, stream)
}

// nameOf reads a key; ok is false for what no session has.
func nameOf(key string) (n name, ok bool) {
	n.user, n.id = splitKey(key)
	return n, n.user != "" && validID(n.id)
}

// Append adds an event; see EventLog. One that cannot be kept leaves a gap.
func (l redisLog) Append(ctx context.Context, key, stream string, data []byte) (uint64, error) {
	return l.add(ctx, key, stream, nil, data, false)
}

// Begin adds the first event of a stream that answers a request; see EventLog.
func (l redisLog) Begin(ctx context.Context, key, stream string, request, data []byte) (uint64, error) {
	return l.add(ctx, key, stream, request, data, false)
}

// Finish adds the last event; see EventLog.
func (l redisLog) Finish(ctx context.Context, key, stream string, data []byte) (uint64, error) {
	seq, err := l.add(ctx, key, stream, nil, data, true)
	if errors.Is(err, ErrUnavailable) {
		l.s.setMissed(l.s.unended, missedStream{key, stream}, true)
	}
	return seq, err
}

func (l redisLog) add(ctx context.Context, key, stream string, request, data []byte, last bool) (uint64, error) {
	n, ok := nameOf(key)
	if !ok {
		return 0, l.none()
	}
	missed := missedStream{key, stream}
	gap := l.s.hasMissed(missed)
	if request != nil {
		request = l.s.seals.events.SealBytes(request, n.user, n.id, stream, requestSeal)
	}
	seq, err := l.place(ctx, n, stream, data, gap, request, last)
	if err != nil && !errors.Is(err, ErrNotFound) {
		l.s.setMissed(l.s.missed, missed, true)
	} else if gap {
		l.s.setMissed(l.s.missed, missed, false)
	}
	return seq, err
}

// place puts an event behind the newest one of its session. It is sealed for its position
// before Redis is asked, which refuses one that is taken: another replica was first.
func (l redisLog) place(ctx context.Context, n name, stream string, data []byte, gap bool, request []byte, last bool) (uint64, error) {
	h := l.s.copyOf(n)
	if h == nil {
		h = newHeld(n) // nothing is known of it
	}
	select {
	case h.appending <- struct{}{}: // of this replica's events one at a time
		defer func() { <-h.appending }()
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	session, index, meta, events := l.keys(n, stream)
	word := l.s.word()
	newest := h.position()
	for try := range updateTries {
		seq := newest + 1 + uint64(try*try) // the further ahead the more often others were first
		if gap {
			seq++
		}
		at := strconv.FormatUint(seq, 10)
		got, err := l.s.step(ctx, l.s.scripts.appendEvent, n, []string{session, index, meta, events},
			stream, l.s.seals.events.SealBytes(data, n.user, n.id, stream, at), LogEvents, LogBytes, LogStreams, word, flag(gap), request,
			flag(last), streamKept.Milliseconds(), strconv.FormatInt(endedBefore, 10), at, seal.Overhead)
		if err != nil {
			return 0, err
		}
		switch got := got.(type) {
		case string: // the newest, which another replica has added
			if newest, err = strconv.ParseUint(got, 10, 64); err != nil {
				return 0, fmt.Errorf("session: adding to a stream: %w", err)
			}
			continue
		case int64:
			if got < 0 {
				return 0, ErrEnded
			}
			if got > 0 {
				h.reached(uint64(got))
				return uint64(got), nil
			}
		}
		return 0, ErrNotFound
	}
	return 0, fmt.Errorf("%w: too many write to the session's streams at a time", ErrUnavailable)
}

// position is that of the newest event which is known here.
func (h *held) position() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

func (h *held) reached(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = max(h.newest, seq)
}

// word is another one each time, at all replicas.
func (s *Redis) word() string { return s.self + strconv.FormatUint(s.words.Add(1), 36) }

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// Request returns what a stream answers; see EventLog.
func (l redisLog) Request(ctx context.Context, key, stream string) ([]byte, error) {
	n, ok := nameOf(key)
	if !ok {
		return nil, l.none()
	}
	session, _, meta, _ := l.keys(n, stream)
	got, err := l.s.step(ctx, l.s.scripts.request, n, []string{session, meta})
	if err != nil {
		return nil, err
	}
	id, ok := got.(string)
	switch {
	case !ok:
		return nil, ErrNotFound
	case id == "":
		return nil, nil
	}
	plain, err := l.s.seals.events.OpenBytes([]byte(id), n.user, n.id, stream, requestSeal)
	if err != nil {
		l.s.db.Unopened("event")
		return nil, ErrNotFound
	}
	return plain, nil
}

// End says that nothing more comes; see EventLog.
func (l redisLog) End(ctx context.Context, key, stream string) error {
	n, ok := nameOf(key)
	if !ok {
		return l.none()
	}
	session, index, meta, events := l.keys(n, stream)
	missed := missedStream{key, stream}
	got, err := l.s.step(ctx, l.s.scripts.endStream, n, []string{session, index, meta, events},
		stream, streamKept.Milliseconds(), strconv.FormatInt(endedBefore, 10), flag(l.s.hasMissed(missed)))
	if err != nil {
		l.s.setMissed(l.s.unended, missed, true)
		return err
	}
	l.s.setMissed(l.s.missed, missed, false)
	l.s.setMissed(l.s.unended, missed, false)
	if got != int64(1) {
		return ErrNotFound
	}
	return nil
}

// Read returns the events after a position; see EventLog.
func (l redisLog) Read(ctx context.Context, key, stream string, after uint64) ([]Event, bool, <-chan struct{}, error) {
	n, ok := nameOf(key)
	if !ok {
		return nil, false, nil, l.none()
	}
	session, _, meta, events := l.keys(n, stream)
	more := l.s.await(key) // before it is read, so that nothing comes in between
	got, err := l.s.step(ctx, l.s.scripts.read, n, []string{session, meta, events, l.s.keyOf("w", n)},
		strconv.FormatUint(after, 10), l.s.self)
	if err != nil {
		return nil, false, nil, err
	}
	found, _ := got.([]any)
	if len(found) != 5 {
		return nil, false, nil, ErrNotFound
	}
	var numbers [4]uint64 // born, last, dropped, ended
	for i := range numbers {
		text, _ := found[i].(string)
		if numbers[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, false, nil, fmt.Errorf("session: reading a stream: %w", err)
		}
	}
	born, last, dropped, ended := numbers[0], numbers[1], numbers[2], numbers[3] == 1
	if after > last {
		return nil, false, nil, ErrNotFound
	}
	list, err := l.open(n, stream, found[4])
	if err != nil {
		return nil, false, nil, err
	}
	if after < dropped || after != 0 && after <= born {
		err = ErrGap // dropped from the log, or with an earlier stream of this name
	}
	if ended {
		more = nil
	}
	return list, ended, more, err
}

// open reads the answer of XRANGE. A stream with an event that no replica has put there is
// as good as none.
func (l redisLog) open(n name, stream string, reply any) (list []Event, err error) {
	entries, _ := reply.([]any)
	for _, entry := range entries {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return nil, fmt.Errorf("session: an event has no form")
		}
		id, _ := pair[0].(string)
		fields, _ := pair[1].([]any)
		digits, _, _ := strings.Cut(id, "-")
		seq, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || len(fields) != 2 {
			return nil, fmt.Errorf("session: an event has no form")
		}
		sealed, _ := fields[1].(string)
		data, err := l.s.seals.events.OpenBytes([]byte(sealed), n.user, n.id, stream, digits)
		if err != nil {
			l.s.db.Unopened("event")
			return nil, ErrNotFound
		}
		list = append(list, Event{Seq: seq, Data: data})
	}
	return list, nil
}

// none is the answer for a key that no session has.
func (l redisLog) none() error {
	if l.s.closed.Load() {
		return ErrUnavailable
	}
	return ErrNotFound
}

// await returns what is closed when a session has news, or now and then.
func (s *Redis) await(key string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.waits[key]
	if c == nil {
		c = make(chan struct{})
		s.waits[key] = c
	}
	return c
}

func (s *Redis) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.waits[key]; c != nil {
		close(c)
		delete(s.waits, key)
	}
}

func (s *Redis) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.waits {
		close(c)
		delete(s.waits, key)
	}
}

func (s *Redis) hasMissed(m missedStream) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.missed) > 0 && s.missed[m]
}

// setMissed notes something of a stream, in s.missed or s.unended.
func (s *Redis) setMissed(in map[missedStream]bool, m missedStream, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !is {
		delete(in, m)
		return
	}
	if len(in) < maxMissed {
		in[m] = true
	}
}

// endLate ends the streams that could not be ended in time: whoever follows one elsewhere
// would wait for its writer.
func (s *Redis) endLate() {
	s.mu.RLock()
	late := slices.Collect(maps.Keys(s.unended))
	s.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	defer cancel()
	for _, m := range late {
		if err := s.Log().End(ctx, m.key, m.stream); errors.Is(err, ErrUnavailable) {
			return
		}
	}
}

package sessiontest

import (
	"context"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Sessions are the sessions of a store by their names. As a request does, each method uses the home
// of the session while it runs.
type Sessions struct{ session.Store }

// Use calls do with the home of a session.
func (s Sessions) Use(ctx context.Context, key home.Key, do func(*home.Home) error) error {
	h, err := s.Homes().Use(ctx, key)
	if err != nil {
		return err
	}
	defer h.Done()
	return do(h)
}

// Get returns the record of a session.
func (s Sessions) Get(ctx context.Context, user, id string) (r session.Record, err error) {
	err = s.Use(ctx, home.Key{User: user, ID: id}, func(h *home.Home) error {
		r = session.Of(h)
		return nil
	})
	return r, err
}

// Update changes the record of a session.
func (s Sessions) Update(
	ctx context.Context, user, id string, change func(*session.Record),
) (r session.Record, err error) {
	err = s.Use(ctx, home.Key{User: user, ID: id}, func(h *home.Home) (err error) {
		r, err = s.Store.Update(ctx, h, change)
		return err
	})
	return r, err
}

// Delete ends a session.
func (s Sessions) Delete(ctx context.Context, user, id string) error {
	return s.Use(ctx, home.Key{User: user, ID: id}, func(h *home.Home) error { return h.End(ctx, home.Ended) })
}

// Log returns the event log of the sessions.
func (s Sessions) Log() Log { return Log{s} }

// Log is an EventLog of sessions by their names ("user:id").
type Log struct{ s Sessions }

// Append is EventLog.Append.
func (l Log) Append(ctx context.Context, key, stream string, data ...[]byte) (seq uint64, err error) {
	return l.Begin(ctx, key, stream, nil, data...)
}

// Begin is EventLog.Begin, and EventLog.Append for no request.
func (l Log) Begin(ctx context.Context, key, stream string, request []byte, data ...[]byte) (seq uint64, err error) {
	err = l.s.Use(ctx, home.ParseKey(key), func(h *home.Home) (err error) {
		if request == nil {
			seq, err = l.s.Store.Log().Append(ctx, h, stream, data...)
		} else {
			seq, err = l.s.Store.Log().Begin(ctx, h, stream, request, data...)
		}
		return err
	})
	return seq, err
}

// Request is EventLog.Request.
func (l Log) Request(ctx context.Context, key, stream string) (request []byte, err error) {
	err = l.s.Use(ctx, home.ParseKey(key), func(h *home.Home) (err error) {
		request, err = l.s.Store.Log().Request(ctx, h, stream)
		return err
	})
	return request, err
}

// Finish is EventLog.Finish.
func (l Log) Finish(ctx context.Context, key, stream string, data ...[]byte) (seq uint64, err error) {
	err = l.s.Use(ctx, home.ParseKey(key), func(h *home.Home) (err error) {
		seq, err = l.s.Store.Log().Finish(ctx, h, stream, data...)
		return err
	})
	return seq, err
}

// End is EventLog.End.
func (l Log) End(ctx context.Context, key, stream string) error {
	return l.s.Use(ctx, home.ParseKey(key), func(h *home.Home) error { return l.s.Store.Log().End(ctx, h, stream) })
}

// Read is EventLog.Read.
func (l Log) Read(
	ctx context.Context, key, stream string, after uint64,
) (events []session.Event, ended bool, more <-chan struct{}, err error) {
	err = l.s.Use(ctx, home.ParseKey(key), func(h *home.Home) (err error) {
		events, ended, more, err = l.s.Store.Log().Read(ctx, h, stream, after)
		return err
	})
	return events, ended, more, err
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/recent"
)

const (
	// aliveEvery is how often a stream says that it is alive.
	aliveEvery = 15 * time.Second
	// writeTimeout bounds each write to a stream.
	writeTimeout = 30 * time.Second
	mostLast     = 1000
)

// live sends records as they come, as an event stream: "decision" events, each with a record,
// and "missed" events when some were skipped.
func (a *API) live(x *exchange) error {
	values := x.r.URL.Query()
	q, err := readQuery(values, "last", "pace")
	if err != nil {
		return err
	}
	last := 0
	if text := values.Get("last"); text != "" {
		if last, err = strconv.Atoi(text); err != nil || last < 0 || last > mostLast {
			return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("last: %q: want 0 to %d", text, mostLast))
		}
	}
	var p pacer
	if text := values.Get("pace"); text != "" {
		if p.most, err = strconv.Atoi(text); err != nil || p.most < 1 || p.most > mostPace {
			return refusal(http.StatusBadRequest, failure.AdminRequest, fmt.Sprintf("pace: %q: want 1 to %d", text, mostPace))
		}
	}
	var after recent.Cursor
	if id := x.r.Header.Get("Last-Event-ID"); id != "" {
		if after, err = recent.ParseCursor(id); err != nil {
			return refusal(http.StatusBadRequest, failure.AdminRequest, "Last-Event-ID is not the id of an event")
		}
	}
	r, who := x.r, x.who
	ctx, end := a.deps.Lasting.WhileIt(r.Context(), func(context.Context) bool { // no token of a viewer needs to be asked for elsewhere
		now, err := a.admit(r, RoleViewer)
		return err == nil && now.Name == who.Name && slices.Equal(now.Roles, who.Roles)
	})
	defer end()
	x.r = r.WithContext(ctx)
	f, err := a.deps.Recent.Follow(ctx, q.Filter, after, last)
	if errors.Is(err, recent.ErrFull) {
		return refusal(http.StatusServiceUnavailable, failure.AdminBusy, fmt.Sprintf("%d others follow already", recent.MostFollowers))
	}
	if err != nil {
		return refusal(http.StatusServiceUnavailable, failure.Stopping, "the gateway stops")
	}
	defer f.Close()
	x.stream(f, p)
	return nil
}

// stream writes what a follower gets until the client leaves.
func (x *exchange) stream(f *recent.Follower, p pacer) {
	to := http.NewResponseController(x.w)
	_ = to.SetReadDeadline(time.Time{}) // the server's own is for requests
	send := func(text []byte) error {
		_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := x.w.Write(text); err != nil {
			return err
		}
		return to.Flush()
	}
	x.w.Header().Set("Content-Type", "text/event-stream")
	x.w.Header().Set("X-Accel-Buffering", "no")
	if send([]byte(": follows\n\n")) != nil {
		return
	}
	for {
		ctx, cancel := context.WithTimeout(x.r.Context(), aliveEvery)
		items, missed, err := f.Next(ctx)
		cancel()
		text := []byte(": alive\n\n")
		if items, missed = p.take(items, missed, time.Now()); err == nil || missed > 0 {
			text = x.events(items, missed)
		}
		if x.r.Context().Err() != nil || errors.Is(err, recent.ErrClosed) || len(text) > 0 && send(text) != nil {
			return
		}
	}
}

func (x *exchange) events(items []*recent.Item, missed int64) (text []byte) {
	if missed > 0 {
		text = fmt.Appendf(text, "event: missed\ndata: {\"missed\":%d}\n\n", missed)
	}
	for _, i := range items {
		record, _ := x.decision(i).MarshalJSON() // cannot fail
		text = fmt.Appendf(text, "event: decision\nid: %s\ndata: %s\n\n", i.Cursor, record)
	}
	return text
}

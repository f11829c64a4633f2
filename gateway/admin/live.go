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
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// aliveEvery is the interval of signs of life on a stream.
	aliveEvery = 15 * time.Second
	// writeTimeout bounds each write to a stream.
	writeTimeout = 30 * time.Second
	mostLast     = 1000
)

// LiveQuestion selects the records to follow.
type LiveQuestion struct {
	record.Filter
	// After is the cursor of the last record that is known. Without one, the last records, at most
	// Last, come first.
	After recent.Cursor
	Last  int
	Pace  int // bound for a second, 0 for none
}

// Follow sends an operator the wanted records until the operator's request ends. send gets records,
// oldest first, and how many were skipped before them; now and then it gets none, as a sign of life.
// Errors: that of send, and a *Refusal.
func (a *API) Follow(r *http.Request, who Operator, q LiveQuestion, send func([]Decision, int64) error) error {
	who.From = a.deps.Origin(r)
	if err := a.allow(who, RoleViewer, r.Method, r.URL.Path); err != nil {
		return err
	}
	return a.follow(r.Context(), who, q, send)
}

func (a *API) follow(ctx context.Context, who Operator, q LiveQuestion, send func([]Decision, int64) error) error {
	f, err := a.deps.Recent.Follow(ctx, q.Filter, q.After, q.Last)
	if errors.Is(err, recent.ErrFull) {
		return busy(fmt.Sprintf("%d others follow already", recent.MostFollowers))
	}
	if err != nil {
		return refusal(http.StatusServiceUnavailable, failure.Stopping, "the gateway stops")
	}
	defer f.Close()
	p := pacer{most: q.Pace}
	err = send(nil, 0)
	for err == nil {
		soon, cancel := context.WithTimeout(ctx, aliveEvery)
		items, missed, over := f.Next(soon)
		cancel()
		if ctx.Err() != nil || errors.Is(over, recent.ErrClosed) {
			return nil
		}
		if items, missed = p.take(items, missed, time.Now()); over != nil || len(items) > 0 || missed > 0 {
			err = send(who.shown(items), missed)
		}
	}
	return err
}

// live sends records as they come, as an event stream: "decision" events, each with a record,
// and "missed" events when some were skipped.
func (a *API) live(x *exchange) error {
	q, err := liveQuestion(x.r)
	if err != nil {
		return err
	}
	// no token of a viewer needs to be asked for elsewhere
	ctx, end := a.deps.Lasting.WhileIt(x.r.Context(), func(context.Context) bool {
		now, err := a.admit(x.r, RoleViewer)
		return err == nil && now.Name == x.who.Name && slices.Equal(now.Roles, x.who.Roles)
	})
	defer end()
	to, began := http.NewResponseController(x.w), false
	err = a.follow(ctx, x.who, q, func(records []Decision, missed int64) error {
		text := []byte(": alive\n\n")
		switch {
		case !began:
			began = true
			_ = to.SetReadDeadline(time.Time{}) // the server's own is for requests
			x.w.Header().Set("Content-Type", "text/event-stream")
			x.w.Header().Set("X-Accel-Buffering", "no")
			text = []byte(": follows\n\n")
		case len(records) > 0 || missed > 0:
			text = liveEvents(records, missed)
		}
		_ = to.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := x.w.Write(text); err != nil {
			return err
		}
		return to.Flush()
	})
	if began { // the client has left
		return nil
	}
	return err
}

func liveQuestion(r *http.Request) (q LiveQuestion, err error) {
	values := r.URL.Query()
	wanted, err := ReadQuery(values, "last", "pace")
	if err != nil {
		return q, err
	}
	q.Filter = wanted.Filter
	for name, one := range map[string]struct {
		to          *int
		least, most int
	}{"last": {&q.Last, 0, mostLast}, "pace": {&q.Pace, 1, mostPace}} {
		text := values.Get(name)
		if text == "" {
			continue
		}
		if *one.to, err = strconv.Atoi(text); err != nil || *one.to < one.least || *one.to > one.most {
			return q, BadRequest(fmt.Sprintf("%s: %q: want %d to %d", name, text, one.least, one.most))
		}
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		if q.After, err = recent.ParseCursor(id); err != nil {
			return q, BadRequest("Last-Event-ID is not the id of an event")
		}
	}
	return q, nil
}

func liveEvents(records []Decision, missed int64) (text []byte) {
	if missed > 0 {
		text = fmt.Appendf(text, "event: missed\ndata: {\"missed\":%d}\n\n", missed)
	}
	for _, d := range records {
		record, _ := d.MarshalJSON() // cannot fail
		text = fmt.Appendf(text, "event: decision\nid: %s\ndata: %s\n\n", d.Cursor, record)
	}
	return text
}

package sessiontest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/session"
)

// appendTo adds an event and returns its position.
func (f *fixture) appendTo(t *testing.T, r session.Record, stream, data string) uint64 {
	t.Helper()
	seq, err := f.Log().Append(t.Context(), r.Key(), stream, []byte(data))
	if err != nil {
		t.Fatalf("appending to %s: %v", stream, err)
	}
	return seq
}

// wantEvents reads a stream and compares the result.
func (f *fixture) wantEvents(t *testing.T, r session.Record, stream string, after uint64, wantErrIs error,
	wantEnded bool, want ...string) {
	t.Helper()
	events, ended, more, err := f.Log().Read(t.Context(), r.Key(), stream, after)
	wantErr(t, fmt.Sprintf("reading %s after %d", stream, after), err, wantErrIs)
	if ended != wantEnded {
		t.Errorf("%s: ended is %t, want %t", stream, ended, wantEnded)
	}
	if err == nil && !ended && more == nil {
		t.Errorf("%s: there is no channel to wait on", stream)
	}
	var got []string
	last := after
	for _, e := range events {
		got = append(got, string(e.Data))
		if e.Seq <= last {
			t.Errorf("%s: event %d after %d", stream, e.Seq, last)
		}
		last = e.Seq
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%s after %d: got %d events %.100q, want %d %.100q", stream, after, len(got), got, len(want), want)
	}
}

func testLog(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	wantErr(t, "reading a stream that never was", f.read(t, r.Key(), "s", 0), session.ErrNotFound)
	wantErr(t, "ending a stream that never was", f.Log().End(t.Context(), r.Key(), "s"), session.ErrNotFound)
	if seq := f.appendTo(t, r, "s", ""); seq != 1 {
		t.Errorf("the first position is %d, want 1", seq)
	}
	f.appendTo(t, r, "s", "a")
	f.wantEvents(t, r, "s", 0, nil, false, "", "a")
	for range 2 {
		succeeds(t, f.Log().End(t.Context(), r.Key(), "s"))
	}
	f.wantEvents(t, r, "s", 1, nil, true, "a")
	f.wantEvents(t, r, "s", 2, nil, true)
	wantErr(t, "appending after the end", f.append(t, r.Key(), "s"), session.ErrNotFound)
}

// testLogTogether: events that are added together have positions in a row, and share one outcome.
func testLogTogether(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	id, a, b := []byte("7"), []byte("a"), []byte("b")
	if seq, err := f.Log().Begin(t.Context(), r.Key(), "s", id, nil, a, b); err != nil || seq != 3 {
		t.Errorf("the last of three is at %d, %v", seq, err)
	}
	f.wantEvents(t, r, "s", 1, nil, false, "a", "b")
	if seq, err := f.Log().Finish(t.Context(), r.Key(), "s", b, a); err != nil || seq != 5 {
		t.Errorf("the last of five is at %d, %v", seq, err)
	}
	f.wantEvents(t, r, "s", 2, nil, true, "b", "b", "a")
	wantErr(t, "appending after the end", second(f.Log().Append(t.Context(), r.Key(), "s", a, b)), session.ErrEnded)
	many := make([][]byte, session.LogEvents+2)
	if seq, err := f.Log().Append(t.Context(), r.Key(), "many", many...); err != nil || seq != 5+session.LogEvents+2 {
		t.Errorf("the last of many is at %d, %v", seq, err)
	}
	f.wantEvents(t, r, "many", 6, session.ErrGap, false, make([]string, session.LogEvents)...)
}

func testLogFinish(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	f.appendTo(t, r, "s", "a")
	var wg sync.WaitGroup
	finished := make(chan string, 10)
	for i := range 10 {
		wg.Go(func() {
			_, err := f.Log().Finish(t.Context(), r.Key(), "s", fmt.Append(nil, "end ", i))
			if err == nil {
				finished <- fmt.Sprint("end ", i)
			} else if !errors.Is(err, session.ErrEnded) || !errors.Is(err, session.ErrNotFound) {
				t.Errorf("finishing what is finished: %v", err)
			}
		})
	}
	wg.Wait()
	if len(finished) != 1 {
		t.Fatalf("%d have finished one stream", len(finished))
	}
	f.wantEvents(t, r, "s", 0, nil, true, "a", <-finished)
	wantErr(t, "appending to what is finished", f.append(t, r.Key(), "s"), session.ErrEnded)
	wantErr(t, "beginning what is finished", second(f.Log().Begin(t.Context(), r.Key(), "s", []byte("1"), nil)),
		session.ErrEnded)
	wantErr(t, "ending what is finished", f.Log().End(t.Context(), r.Key(), "s"), nil)
	succeeds(t, second(f.Log().Finish(t.Context(), r.Key(), "at once", []byte("x"))))
	f.wantEvents(t, r, "at once", 0, nil, true, "x")
	err := second(f.Log().Finish(t.Context(), "mallory:"+r.ID, "s", []byte("x")))
	if wantErr(t, "finishing another's", err, session.ErrNotFound); errors.Is(err, session.ErrEnded) {
		t.Error("another's stream is told from none")
	}
}

func testLogRequest(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	want := func(what, stream, want string) {
		t.Helper()
		if got, err := f.Log().Request(t.Context(), r.Key(), stream); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	id := []byte(`"7"`)
	succeeds(t, second(f.Log().Begin(t.Context(), r.Key(), "s", id, nil)))
	copy(id, "xxx")
	f.wantEvents(t, r, "s", 0, nil, false, "")
	for range session.LogEvents + 10 {
		f.appendTo(t, r, "s", "x")
	}
	want("with its first event dropped", "s", `"7"`)
	succeeds(t, second(f.Log().Finish(t.Context(), r.Key(), "s", []byte("end"))))
	want("finished", "s", `"7"`)
	f.appendTo(t, r, "g", "x")
	want("one that answers nothing", "g", "")
	for what, key := range map[string][2]string{"no stream": {r.Key(), "none"},
		"another user's": {"mallory:" + r.ID, "s"}} {
		wantErr(t, what, second(f.Log().Request(t.Context(), key[0], key[1])), session.ErrNotFound)
	}
}

func testLogCopies(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	data := []byte("before")
	succeeds(t, second(f.Log().Append(t.Context(), r.Key(), "s", data)))
	copy(data, "after!")
	f.wantEvents(t, r, "s", 0, nil, false, "before")
}

func testLogPositions(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	var last uint64
	for _, stream := range []string{"a", "b", "a", "c", "b", "a"} {
		seq := f.appendTo(t, r, stream, stream)
		if seq <= last {
			t.Errorf("position %d after %d", seq, last)
		}
		last = seq
	}
	f.wantEvents(t, r, "a", 0, nil, false, "a", "a", "a")
}

func testLogAfter(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	f.appendTo(t, r, "post", "1")
	seen := f.appendTo(t, r, "post", "2")
	f.appendTo(t, r, "other", "not this")
	f.appendTo(t, r, "post", "3")
	f.appendTo(t, r, "post", "response")
	succeeds(t, f.Log().End(t.Context(), r.Key(), "post"))
	f.wantEvents(t, r, "post", seen, nil, true, "3", "response")
}

func testLogForeign(t *testing.T, f *fixture) {
	r, sibling, foreign := f.create(t, "alice"), f.create(t, "alice"), f.create(t, "mallory")
	seq := f.appendTo(t, r, "s", "secret")
	for _, key := range []string{sibling.Key(), foreign.Key(), "mallory:" + r.ID, r.ID, ":" + r.ID, "alice:",
		"", "alice"} {
		wantErr(t, "reading with key "+key, f.read(t, key, "s", 0), session.ErrNotFound)
	}
	wantErr(t, "reading another stream", f.read(t, r.Key(), "S", 0), session.ErrNotFound)
	wantErr(t, "reading from the future", f.read(t, r.Key(), "s", seq+1), session.ErrNotFound)
	wantErr(t, "reading from the far future", f.read(t, r.Key(), "s", 1<<64-1), session.ErrNotFound)
}

func testLogWake(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	f.appendTo(t, r, "s", "1")
	changes := []struct {
		name string
		do   func()
	}{
		{"an event", func() { f.appendTo(t, r, "s", "2") }},
		{"the end", func() { wantErr(t, "end", f.Log().End(t.Context(), r.Key(), "s"), nil) }},
	}
	for _, change := range changes {
		var wg sync.WaitGroup
		for range 3 {
			_, _, more, err := f.Log().Read(t.Context(), r.Key(), "s", 1)
			succeeds(t, err)
			wg.Go(func() { <-more })
		}
		f.appendTo(t, r, "other", "wakes nobody here")
		start := time.Now()
		change.do()
		wg.Wait()
		if took := time.Since(start); f.passes == nil && took != 0 {
			t.Errorf("%s: the readers were woken after %s", change.name, took)
		}
	}

	_, _, more, err := f.Log().Read(t.Context(), r.Key(), "s2", f.appendTo(t, r, "s2", "1"))
	succeeds(t, err)
	f.delete(t, r)
	<-more
}

func testLogEvents(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	var first, last uint64
	var kept []string
	for i := range session.LogEvents + 10 {
		data := fmt.Sprint(i)
		last = f.appendTo(t, r, "s", data)
		if i == 0 {
			first = last
		}
		if i >= 10 {
			kept = append(kept, data)
		}
	}
	f.wantEvents(t, r, "s", 0, session.ErrGap, false, kept...)
	f.wantEvents(t, r, "s", first, session.ErrGap, false, kept...)
	f.wantEvents(t, r, "s", first+9, nil, false, kept...)
	f.wantEvents(t, r, "s", last-1, nil, false, kept[len(kept)-1])
	f.wantEvents(t, r, "s", last, nil, false)
}

func testLogBytes(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	third := strings.Repeat("x", session.LogBytes/3)
	first := f.appendTo(t, r, "s", third+"1")
	f.appendTo(t, r, "s", third+"2")
	f.wantEvents(t, r, "s", 0, nil, false, third+"1", third+"2")
	f.appendTo(t, r, "s", third+"3")
	f.wantEvents(t, r, "s", 0, session.ErrGap, false, third+"2", third+"3")
	f.wantEvents(t, r, "s", first, nil, false, third+"2", third+"3")
}

func testLogLarge(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	large := strings.Repeat("x", 3*session.LogBytes)
	first := f.appendTo(t, r, "s", "small")
	f.appendTo(t, r, "s", large)
	f.wantEvents(t, r, "s", first, nil, false, large)
	f.appendTo(t, r, "s", "next")
	f.wantEvents(t, r, "s", first, session.ErrGap, false, "next")
}

func testLogStreams(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	for i := range session.LogStreams {
		f.appendTo(t, r, fmt.Sprint(i), "x")
		f.pass(time.Second)
	}
	for _, ended := range []string{"7", "3"} {
		succeeds(t, f.Log().End(t.Context(), r.Key(), ended))
		f.pass(time.Second)
	}
	// The one that ended first goes first, then the other ended one, then the least recently
	// written.
	for i, gone := range []string{"7", "3", "0", "1"} {
		f.wantEvents(t, r, gone, 0, nil, i < 2, "x")
		f.appendTo(t, r, fmt.Sprint("new", i), "x")
		wantErr(t, "reading "+gone, f.read(t, r.Key(), gone, 0), session.ErrForgotten)
		f.pass(time.Second)
	}
	f.wantEvents(t, r, "2", 0, nil, false, "x")
}

func testLogEvicted(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	first := f.appendTo(t, r, "s", "x")
	_, _, more, err := f.Log().Read(t.Context(), r.Key(), "s", first)
	succeeds(t, err)
	for i := range session.LogStreams {
		f.pass(time.Second)
		f.appendTo(t, r, fmt.Sprint(i), "x")
	}
	<-more // its follower learns of it
	second := f.appendTo(t, r, "s", "y")
	if second <= first {
		t.Errorf("position %d came again after %d", second, first)
	}
	f.wantEvents(t, r, "s", first, session.ErrGap, false, "y")
	f.wantEvents(t, r, "s", second, nil, false)
}

func testLogForgotten(t *testing.T, f *fixture) {
	const kept = 5 * time.Minute
	f.pass(offBeat)
	r := f.create(t, "alice")
	f.appendTo(t, r, "done", "x")
	f.appendTo(t, r, "open", "x")
	succeeds(t, f.Log().End(t.Context(), r.Key(), "done"))
	f.pass(f.justBefore(kept))
	wantErr(t, "the session", f.get(t, r), nil)
	f.wantEvents(t, r, "done", 0, nil, true, "x")
	f.pass(time.Second + f.slack)
	wantErr(t, "reading what ended long ago", f.read(t, r.Key(), "done", 0), session.ErrForgotten)
	f.pass(kept)
	f.wantEvents(t, r, "open", 0, nil, false, "x")
	last := f.appendTo(t, r, "new", "x")
	wantErr(t, "reading what ended still longer ago", f.read(t, r.Key(), "done", 1), session.ErrForgotten)
	if err := f.read(t, r.Key(), "never", last); !errors.Is(err, session.ErrNotFound) ||
		errors.Is(err, session.ErrForgotten) {
		t.Errorf("reading what was never there: %v", err)
	}
}

func testLogSessionEnd(t *testing.T, f *fixture) {
	deleted, idled := f.create(t, "alice"), f.create(t, "alice")
	f.appendTo(t, deleted, "s", "x")
	f.appendTo(t, idled, "s", "x")
	_, _, more, err := f.Log().Read(t.Context(), idled.Key(), "s", 0)
	succeeds(t, err)
	f.delete(t, deleted)
	f.pass(f.justAfter(idle))
	<-more
	for _, r := range []session.Record{deleted, idled} {
		wantErr(t, "read", f.read(t, r.Key(), "s", 0), session.ErrNotFound)
		wantErr(t, "append", f.append(t, r.Key(), "s"), session.ErrNotFound)
		wantErr(t, "end", f.Log().End(t.Context(), r.Key(), "s"), session.ErrNotFound)
	}
}

func testLogIdle(t *testing.T, f *fixture) {
	r := f.create(t, "alice")
	h, log := f.home(t, r), f.Store.Log()
	for range 10 {
		seq, err := log.Append(t.Context(), h, "s", []byte("x"))
		succeeds(t, err)
		events, _, _, err := log.Read(t.Context(), h, "s", seq-1)
		if err != nil || len(events) != 1 {
			t.Errorf("%d events, %v", len(events), err)
		}
		f.pass(idle / 10)
	}
	f.pass(f.slack)
	wantErr(t, "get", f.get(t, r), session.ErrNotFound)
	f.pass(idle)
	f.settle()
	f.wantEnded(t, r.Key())
}

// testLogConcurrent has readers follow the events of writers to the end. No event may be lost,
// duplicated or out of order, and no reader may be left waiting.
func testLogConcurrent(t *testing.T, f *fixture) {
	const streams, events, readers = 4, 200, 3
	r := f.create(t, "alice")
	var wg sync.WaitGroup
	for s := range streams {
		stream := fmt.Sprint(s)
		f.appendTo(t, r, stream, "0")
		wg.Go(func() {
			for i := 1; i < events; i++ {
				wantErr(t, "append", second(f.Log().Append(t.Context(), r.Key(), stream, fmt.Append(nil, i))), nil)
			}
			wantErr(t, "end", f.Log().End(t.Context(), r.Key(), stream), nil)
		})
		for range readers {
			wg.Go(func() { f.follow(t, r, stream, events) })
		}
	}
	wg.Wait()
}

func (f *fixture) follow(t *testing.T, r session.Record, stream string, want int) {
	var after uint64
	n := 0
	for {
		events, ended, more, err := f.Log().Read(t.Context(), r.Key(), stream, after)
		if err != nil {
			t.Errorf("stream %s: %v", stream, err)
			return
		}
		for _, e := range events {
			if !bytes.Equal(e.Data, fmt.Append(nil, n)) {
				t.Errorf("stream %s: event %d is %q", stream, n, e.Data)
			}
			n++
			after = e.Seq
		}
		if ended {
			break
		}
		<-more
	}
	if n != want {
		t.Errorf("stream %s: %d of %d events", stream, n, want)
	}
}

package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// writeTimeout bounds each write to a stream.
	writeTimeout = 30 * time.Second
	// longestLive bounds the time of a stream. The browser then asks again.
	longestLive = 10 * time.Minute
	// lookAgain is the time after which a stream checks its visitor again: one who has lost a role,
	// or the session, sees no more.
	lookAgain = 5 * time.Second
)

// wantsEvents reports whether a request is that of an EventSource.
func wantsEvents(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream")
}

// live sends the live part of a page whenever it has changed, or the page's own events.
func (c *Console) live(p page, v *visit) {
	if p.fresh == 0 && p.stream == nil {
		http.Error(v.w, "this page does not change", http.StatusNotAcceptable)
		return
	}
	ctx, stop := context.WithTimeout(v.r.Context(), longestLive)
	defer stop()
	to := http.NewResponseController(v.w)
	_ = to.SetReadDeadline(time.Time{}) // the server's own is for requests
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	out := &events{w: v.w, to: to, look: c.looks[p.look], visit: v, looked: time.Now()}
	if out.write([]byte(": follows\n\n")) != nil {
		return
	}
	if p.stream != nil {
		_ = p.stream(ctx, v, out) // the browser comes back
		return
	}
	again := time.NewTicker(p.fresh)
	defer again.Stop()
	var sent [sha256.Size]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		data, err := p.show(v)
		if err != nil {
			return
		}
		part, err := out.part("live", data)
		if err != nil {
			return
		}
		text := []byte(": alive\n\n")
		if now := sha256.Sum256(part); now != sent {
			sent, text = now, event("part", "", part)
		}
		if out.write(text) != nil {
			return
		}
	}
}

// events are the events of a stream to a browser.
type events struct {
	w     io.Writer
	to    *http.ResponseController
	look  *look
	visit *visit

	mu     sync.Mutex // guards writes, and the field below
	looked time.Time  // when the visitor was last checked
}

// part makes a named template of the page.
func (e *events) part(name string, data any) ([]byte, error) {
	var text bytes.Buffer
	err := e.look.page.ExecuteTemplate(&text, name, frame{Visit: e.visit, Who: e.visit.who, Data: data})
	return text.Bytes(), err
}

// send makes a named template of the page and sends it. The script puts the events "part" in
// place of the live part, and "row" before its first child.
func (e *events) send(kind, id, name string, data any) error {
	part, err := e.part(name, data)
	if err != nil {
		return err
	}
	return e.write(event(kind, id, part))
}

// write writes to the browser, unless its visitor is another one, or has fewer rights than when the
// stream began.
func (e *events) write(text []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.looked) >= lookAgain {
		began := e.visit.who
		now, err := e.visit.c.deps.Guard.Who(e.visit.r)
		switch {
		case errors.Is(err, errAway): // it is asked again, until the stream has lasted long enough
		case err != nil || now.Name != began.Name || !slices.Equal(now.Roles, began.Roles) ||
			(now.Person == nil) != (began.Person == nil):
			return errNobody
		default:
			e.looked = time.Now()
		}
	}
	_ = e.to.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := e.w.Write(text); err != nil {
		return err
	}
	return e.to.Flush()
}

// event writes an event. Each line of its text is a line of data.
func event(kind, id string, data []byte) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "event: %s\n", kind)
	if id != "" {
		fmt.Fprintf(&text, "id: %s\n", id)
	}
	for line := range bytes.Lines(bytes.ReplaceAll(data, []byte("\r"), nil)) {
		text.WriteString("data: ")
		text.Write(bytes.TrimSuffix(line, []byte("\n")))
		text.WriteByte('\n')
	}
	text.WriteByte('\n')
	return text.Bytes()
}

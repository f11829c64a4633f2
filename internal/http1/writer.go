package http1

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// joined is the size in bytes up to which a body is sent in one piece with its head.
const joined = 32 << 10

var errAnswer = errors.New("http1: the handler's answer has a malformed header, or another length than it says")

// writer is the http.ResponseWriter of a Server. It sends an answer in chunks if its length is
// not known when it is flushed or has become large. What is small waits until it is flushed.
type writer struct {
	c       *serving
	header  http.Header
	status  int
	waiting *[]byte // of the body, not sent yet; nil for nothing
	begun   bool    // the head was sent
	chunked bool
	length  int64 // of the body so far
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. It ignores interim answers.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.length += int64(len(p))
	if w.waits()+len(p) <= joined {
		if w.waiting == nil {
			w.waiting = borrow()
		}
		*w.waiting = append(*w.waiting, p...)
		return len(p), nil
	}
	if err := w.send(p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// waits returns how many bytes wait.
func (w *writer) waits() int {
	if w.waiting == nil {
		return 0
	}
	return len(*w.waiting)
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return w.send(nil, false)
}

// SetReadDeadline is for http.ResponseController. The body has been received.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (w *writer) SetWriteDeadline(t time.Time) error { return w.c.nc.SetWriteDeadline(t) }

// finish sends the rest of the answer. After an error the connection cannot be used again.
func (w *writer) finish() error {
	w.WriteHeader(http.StatusOK)
	if !w.chunked {
		length := strconv.FormatInt(w.length, 10)
		if declared := w.header["Content-Length"]; declared == nil {
			w.header["Content-Length"] = []string{length}
		} else if declared[0] != length {
			return errAnswer
		}
	}
	return w.send(nil, true)
}

// send sends what waits and a further part of the body; before it the head, unless that was done,
// and after it the end of the last chunk.
func (w *writer) send(p []byte, last bool) error {
	buf := borrow()
	defer giveBack(buf)
	out := *buf
	if !w.begun {
		w.begun, w.chunked = true, w.header["Content-Length"] == nil
		if out = w.appendHead(out); out == nil {
			return errAnswer
		}
	}
	size := w.waits() + len(p)
	if w.chunked && size > 0 { // an empty chunk would be the last one
		out = append(strconv.AppendInt(out, int64(size), 16), crlf...)
	}
	if w.waiting != nil {
		out = append(out, *w.waiting...)
		giveBack(w.waiting)
		w.waiting = nil
	}
	if len(p) > joined { // most of it is not copied
		if n := joined - len(out); len(out) > 0 && n > 0 { // what the client needs first is not a write of its own
			out, p = append(out, p[:n]...), p[n:]
		}
		if err := w.put(out); err != nil {
			return err
		}
		if err := w.put(p); err != nil {
			return err
		}
		out, p = out[:0], nil
	}
	out = append(out, p...)
	if w.chunked && size > 0 {
		out = append(out, crlf...)
	}
	if w.chunked && last {
		out = append(out, "0\r\n\r\n"...)
	}
	*buf = out
	return w.put(out)
}

func (w *writer) put(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := w.c.nc.Write(p)
	return err
}

// appendHead appends the head. It returns nil if a header field is malformed.
func (w *writer) appendHead(out []byte) []byte {
	out = append(strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(w.status), 10), ' ')
	out = append(append(out, http.StatusText(w.status)...), crlf...)
	for name, values := range w.header {
		if name != "Content-Length" && isFraming(name) || name == "Content-Length" && w.status == http.StatusNoContent {
			continue
		}
		for _, value := range values {
			if !isToken(name) || !isFieldValue(value) {
				return nil
			}
			out = append(append(append(append(out, name...), ": "...), value...), crlf...)
		}
	}
	if w.chunked {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	return append(out, crlf...)
}

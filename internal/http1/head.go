package http1

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
)

const (
	// maxInterim is how many interim answers (1xx) are skipped.
	maxInterim = 8
	// maxKept is the number of header fields for which an idle connection keeps memory.
	maxKept = 64
)

// span is a part of the head, by its distance from the head's beginning.
type span struct{ from, to int }

// head is the head of an answer as it was received.
type head struct {
	length int // of all of it
	status int
	minor  byte // of the version 1.x, as a character
	reason span // the status and what stands behind it
	fields []field
}

type field struct{ name, value span }

var (
	errStatusLine = errors.New("http1: the answer does not begin like one of HTTP/1")
	errField      = errors.New("http1: the answer has a malformed header field")
	errSwitched   = errors.New("http1: the answer switches to a protocol that was not asked for")
	errInterim    = errors.New("http1: there are too many interim answers")
)

// readHead receives the head of the final answer into c.head; it stays in the buffer
// until answer takes it out. Each line is judged as soon as it is there.
func (c *conn) readHead(limit int) error {
	for range maxInterim {
		if err := c.readLines(limit, c.head.readStatus); err != nil {
			return err
		}
		switch h := &c.head; {
		case h.status == http.StatusSwitchingProtocols:
			return errSwitched
		case h.status >= http.StatusOK:
			return nil
		default:
			c.r += h.length
			limit -= h.length
		}
	}
	return errInterim
}

// readLines receives a head. first reads its first line.
func (c *conn) readLines(limit int, first func(line []byte) error) error {
	h := &c.head
	h.fields = h.fields[:0]
	for at := 0; ; {
		length, err := c.line(at, limit, true)
		if err != nil {
			return fmt.Errorf("http1: reading the head of the answer: %w", cut(err))
		}
		line := c.in[c.r+at : c.r+at+length]
		switch {
		case at == 0:
			err = first(line)
		case length == 0:
			h.length = at + len(crlf)
			return nil
		default:
			var f field
			err = f.read(line, at)
			h.fields = append(h.fields, f)
		}
		if err != nil {
			return err
		}
		at += length + len(crlf)
	}
}

// readStatus reads the first line (RFC 9112 §4). The blank before an empty reason may
// be missing.
func (h *head) readStatus(line []byte) error {
	const prefix, digits = len("HTTP/1.1 "), 3
	if len(line) < prefix+digits || string(line[:len("HTTP/1.")]) != "HTTP/1." || line[prefix-1] != ' ' ||
		len(line) > prefix+digits && line[prefix+digits] != ' ' || !isFieldValue(line) {
		return errStatusLine
	}
	h.status = 0
	for _, d := range line[prefix : prefix+digits] {
		if d < '0' || d > '9' {
			return errStatusLine
		}
		h.status = 10*h.status + int(d-'0')
	}
	h.minor, h.reason = line[prefix-2], span{prefix, len(line)}
	if h.minor != '0' && h.minor != '1' || h.status < 100 {
		return errStatusLine
	}
	return nil
}

// read reads a header line that stands at a distance from the head's beginning
// (RFC 9112 §5). One that begins with white space would continue the line before it:
// it has no name.
func (f *field) read(line []byte, at int) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) || !isFieldValue(line[colon+1:]) {
		return errField
	}
	from, to := colon+1, len(line)
	for from < to && isBlank(line[from]) {
		from++
	}
	for from < to && isBlank(line[to-1]) {
		to--
	}
	f.name, f.value = span{at, at + colon}, span{at + from, at + to}
	return nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// answer is a response with its body, in one piece of memory.
type answer struct {
	response http.Response
	body     body
}

// take takes the head out of the buffer. The header has no Transfer-Encoding.
func (c *conn) take() (text string, header http.Header, f framing, err error) {
	h := &c.head
	text = string(c.in[c.r : c.r+h.length])
	c.r += h.length
	f = framing{length: -1}
	header = make(http.Header, len(h.fields))
	values := make([]string, len(h.fields))
	for i, at := range h.fields {
		name := textproto.CanonicalMIMEHeaderKey(text[at.name.from:at.name.to])
		value := text[at.value.from:at.value.to]
		if err := f.read(name, value); err != nil {
			return "", nil, f, err
		}
		if name == "Transfer-Encoding" {
			continue
		}
		if earlier := header[name]; earlier != nil {
			header[name] = append(earlier, value)
			continue
		}
		values[i] = value
		header[name] = values[i : i+1 : i+1]
	}
	return text, header, f, nil
}

// answer takes the head out of the buffer and finds out how the body is framed. The
// body still lacks its pool, context and stop.
func (c *conn) answer(req *http.Request) (*answer, error) {
	text, header, f, err := c.take()
	if err != nil {
		return nil, err
	}
	h, a := &c.head, &answer{}
	resp := &a.response
	*resp = http.Response{
		Status:     text[h.reason.from:h.reason.to],
		StatusCode: h.status,
		Proto:      text[:len("HTTP/1.1")],
		ProtoMajor: 1,
		ProtoMinor: int(h.minor - '0'),
		Header:     header,
		Request:    req,
		Body:       &a.body,
		Close:      h.minor == '0' || req.Close,
	}
	if err := f.check(resp.ProtoMinor); err != nil {
		return nil, err
	}
	a.body.c = c
	f.frame(resp, &a.body)
	return a, nil
}

package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// script is a connection that brings what a test wrote, a few bytes at a time.
type script struct {
	net.Conn
	in   *bytes.Reader
	step int // bytes a read; 0: all that there is
}

func (s *script) Read(p []byte) (int, error) {
	if s.step > 0 {
		p = p[:min(len(p), s.step)]
	}
	return s.in.Read(p)
}

func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// parsed is what became of an answer.
type parsed struct {
	response *http.Response
	body     string
	again    bool // the connection could be used again
	rest     int  // bytes that were not the answer's
	err      error
}

// parse reads an answer as an exchange does.
func parse(input []byte, method string, step, limit int) (p parsed) {
	in := bytes.NewReader(input)
	c := newConn(&script{in: in, step: step}, "host")
	defer func() { p.rest = in.Len() + c.w - c.r }()
	a, err := c.roundTrip(&http.Request{Method: method}, nil, limit)
	if err != nil {
		return parsed{err: err}
	}
	p.response = &a.response
	b := &a.body
	b.pool, b.ctx, b.stop = newPool(1, time.Hour), context.Background(), func() bool { return true }
	if b.kind != none {
		body, err := io.ReadAll(b)
		p.body, p.err = string(body), err
	}
	p.again = p.err == nil && b.again && c.r == c.w
	return p
}

func TestAnswers(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	const chunks = head + "Transfer-Encoding: chunked\r\n\r\n"
	tests := []struct {
		name   string
		method string // POST where there is none
		in     string
		status int // 0: 200
		body   string
		again  bool
		err    error // of the head or of the body
	}{
		{name: "with a length", in: head + "Content-Length: 5\r\n\r\nhello", body: "hello", again: true},
		{name: "empty", in: head + "Content-Length: 0\r\n\r\n", again: true},
		{name: "length with zeros and blanks", in: head + "content-length: \t 005 \t\r\n\r\nhello",
			body: "hello", again: true},
		{name: "no reason", in: "HTTP/1.1 202 \r\nContent-Length: 0\r\n\r\n", status: 202, again: true},
		{name: "no reason and no blank", in: "HTTP/1.1 202\r\nContent-Length: 0\r\n\r\n", status: 202, again: true},
		{name: "an unknown status", in: "HTTP/1.1 799 What\r\nContent-Length: 0\r\n\r\n", status: 799, again: true},
		{name: "bytes beyond ASCII in reason and value",
			in: "HTTP/1.1 200 \xc3\xa4\r\nX: \xff\r\nContent-Length: 0\r\n\r\n", again: true},
		{name: "an empty value", in: head + "X:\r\nContent-Length: 0\r\n\r\n", again: true},
		{name: "until the end", in: head + "\r\nhello", body: "hello"},
		{name: "until the end, nothing", in: head + "\r\n"},
		{name: "HTTP/1.0", in: "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", body: "hello"},
		{name: "HTTP/1.0 keep-alive", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
			body: "hello"},
		{name: "connection close", in: head + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", body: "hello"},
		{name: "connection close in a list", in: head +
			"Connection: x-other\r\nConnection: foo , CLOSE\r\nContent-Length: 5\r\n\r\nhello", body: "hello"},
		{name: "204", in: "HTTP/1.1 204 No Content\r\n\r\n", status: 204, again: true},
		{name: "204 with a length", in: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", status: 204},
		{name: "204 in chunks", in: "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", status: 204},
		{name: "304 with a length", in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304, again: true},
		{name: "HEAD", method: "HEAD", in: head + "Content-Length: 5\r\n\r\n", again: true},
		{name: "HEAD in chunks", method: "HEAD", in: chunks, again: true},

		{name: "interim answers", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok,
			body: "ok", again: true},
		{name: "interim with a length", in: "HTTP/1.1 102 Processing\r\nContent-Length: 9\r\n\r\n" + ok,
			body: "ok", again: true},
		{name: "too many interim answers", in: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim) + ok,
			err: errInterim},
		{name: "interim answers that are too large", in: strings.Repeat("HTTP/1.1 103 E\r\nX: "+strings.Repeat("x", 900)+
			"\r\n\r\n", 6) + ok, err: errLineTooLong},
		{name: "switching protocols", in: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", err: errSwitched},

		{name: "chunks", in: chunks + "5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", body: "hello!", again: true},
		{name: "chunks, other spelling", in: head + "transfer-encoding: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
			body: "hello", again: true},
		{name: "no chunks but the last", in: chunks + "0\r\n\r\n", again: true},
		{name: "chunk sizes in hex", in: chunks + "0A\r\n0123456789\r\n00b\r\nhello world\r\n000\r\n\r\n",
			body: "0123456789hello world", again: true},
		{name: "padded chunk size", in: chunks + "5 \t\r\nhello\r\n0\r\n\r\n", body: "hello", again: true},
		{name: "chunk extensions", in: chunks + "5;a=b;c=\"d\"\r\nhello\r\n0 ;x\r\n\r\n", body: "hello", again: true},
		{name: "trailer", in: chunks + "5\r\nhello\r\n0\r\nX: y\r\nContent-Length: 7\r\n\r\n", body: "hello", again: true},

		{name: "nothing", in: "", err: io.ErrUnexpectedEOF},
		{name: "cut in the status line", in: "HTTP/1.1 2", err: io.ErrUnexpectedEOF},
		{name: "cut in a field", in: head + "Content-", err: io.ErrUnexpectedEOF},
		{name: "cut in the body", in: head + "Content-Length: 5\r\n\r\nhell", body: "hell", err: io.ErrUnexpectedEOF},
		{name: "cut before the body", in: head + "Content-Length: 5\r\n\r\n", err: io.ErrUnexpectedEOF},
		{name: "cut in a chunk", in: chunks + "5\r\nhel", body: "hel", err: io.ErrUnexpectedEOF},
		{name: "cut after a chunk", in: chunks + "5\r\nhello\r\n", body: "hello", err: io.ErrUnexpectedEOF},
		{name: "cut in the trailer", in: chunks + "5\r\nhello\r\n0\r\n", body: "hello", err: io.ErrUnexpectedEOF},

		{name: "another protocol", in: "SSH-2.0-OpenSSH\r\n", err: errStatusLine},
		{name: "HTTP/2", in: "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "HTTP/1.2", in: "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "HTTP/1.10", in: "HTTP/1.10 200 OK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "another spelling", in: "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "two blanks", in: "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "a tab", in: "HTTP/1.1 200\tOK\r\nContent-Length: 0\r\n\r\n", err: errStatusLine},
		{name: "status of two digits", in: "HTTP/1.1 20 OK\r\n\r\n", err: errStatusLine},
		{name: "status of four digits", in: "HTTP/1.1 2000 OK\r\n\r\n", err: errStatusLine},
		{name: "status below 100", in: "HTTP/1.1 099 OK\r\n\r\n", err: errStatusLine},
		{name: "status with a sign", in: "HTTP/1.1 +20 OK\r\n\r\n", err: errStatusLine},
		{name: "control character in the reason", in: "HTTP/1.1 200 O\x00K\r\n\r\n", err: errStatusLine},
		{name: "an empty line first", in: "\r\n" + ok, err: errStatusLine},
		{name: "the end of an earlier answer first", in: "0\r\n\r\n" + ok, err: errStatusLine},

		{name: "LF after the status", in: "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", err: errLineEnd},
		{name: "LF after a field", in: head + "Content-Length: 0\n\r\n", err: errLineEnd},
		{name: "LF at the end", in: head + "Content-Length: 0\r\n\n", err: errLineEnd},
		{name: "CR in a value", in: head + "X: a\rContent-Length: 5\r\n\r\n", err: errField},
		{name: "CR CR LF", in: head + "X: a\r\r\n\r\n", err: errField},
		{name: "NUL in a value", in: head + "X: a\x00\r\n\r\n", err: errField},
		{name: "DEL in a value", in: head + "X: \x7f\r\n\r\n", err: errField},
		{name: "a folded field", in: head + "X: a\r\n Content-Length: 5\r\n\r\n", err: errField},
		{name: "a folded field with a tab", in: head + "X: a\r\n\tb\r\n\r\n", err: errField},
		{name: "a blank before the first field", in: head + " X: a\r\n\r\n", err: errField},
		{name: "a blank before the colon", in: head + "Content-Length : 5\r\n\r\nhello", err: errField},
		{name: "no colon", in: head + "Content-Length 5\r\n\r\nhello", err: errField},
		{name: "no name", in: head + ": 5\r\n\r\n", err: errField},
		{name: "a name that is no token", in: head + "Content(Length): 5\r\n\r\n", err: errField},
		{name: "a name beyond ASCII", in: head + "\xc3\xa4: 5\r\n\r\n", err: errField},
		{name: "a head that is too large", in: head + "X: " + strings.Repeat("x", 5000) + "\r\n\r\n", err: errLineTooLong},
		{name: "many fields", in: head + strings.Repeat("X: y\r\n", 1000) + "\r\n", err: errLineTooLong},

		{name: "two lengths", in: head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", err: errLength},
		{name: "the same length twice", in: head + "Content-Length: 5\r\ncontent-length: 5\r\n\r\nhello", err: errLength},
		{name: "a list of lengths", in: head + "Content-Length: 5, 5\r\n\r\nhello", err: errLength},
		{name: "a length with a sign", in: head + "Content-Length: +5\r\n\r\nhello", err: errLength},
		{name: "a negative length", in: head + "Content-Length: -5\r\n\r\nhello", err: errLength},
		{name: "a length in hex", in: head + "Content-Length: 0x5\r\n\r\nhello", err: errLength},
		{name: "a length with underscores", in: head + "Content-Length: 1_0\r\n\r\n0123456789", err: errLength},
		{name: "an empty length", in: head + "Content-Length:\r\n\r\n", err: errLength},
		{name: "a length above 63 bits", in: head + "Content-Length: 9223372036854775808\r\n\r\n", err: errLength},
		{name: "HEAD with two lengths", method: "HEAD", in: head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
			err: errLength},

		{name: "length and chunks", in: head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			err: errFraming},
		{name: "chunks and length", in: head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
			err: errFraming},
		{name: "chunks in HTTP/1.0", in: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", err: errFraming},
		{name: "chunked twice", in: head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			err: errEncoding},
		{name: "gzip, chunked", in: head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", err: errEncoding},
		{name: "identity", in: head + "Transfer-Encoding: identity\r\n\r\n", err: errEncoding},
		{name: "chunked and more", in: head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", err: errEncoding},
		{name: "chunked with a vertical tab", in: head + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", err: errField},
		{name: "xchunked", in: head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", err: errEncoding},
		{name: "an empty encoding", in: head + "Transfer-Encoding:\r\n\r\n", err: errEncoding},

		{name: "a chunk without size", in: chunks + "\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size that is none", in: chunks + "x\r\n", err: errChunk},
		{name: "a chunk size with a sign", in: chunks + "+5\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size with 0x", in: chunks + "0x5\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size after a blank", in: chunks + " 5\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size and more", in: chunks + "5 5\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size above 63 bits", in: chunks + "8000000000000005\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk size above 64 bits", in: chunks + "10000000000000005\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "LF after the chunk size", in: chunks + "5\nhello\r\n0\r\n\r\n", err: errLineEnd},
		{name: "LF after the chunk", in: chunks + "5\r\nhello\n0\r\n\r\n", body: "hello", err: errLineEnd},
		{name: "LF after the last chunk", in: chunks + "5\r\nhello\r\n0\r\n\n", body: "hello", err: errLineEnd},
		{name: "CR in an extension", in: chunks + "5;a\rb\r\nhello\r\n0\r\n\r\n", err: errChunk},
		{name: "a chunk that is too long", in: chunks + "4\r\nhello\r\n0\r\n\r\n", body: "hell", err: errChunk},
		{name: "a chunk that is too short", in: chunks + "6\r\nhello\r\n0\r\n\r\n", body: "hello\r", err: errLineEnd},
		{name: "a chunk line that is too long", in: chunks + "5;" + strings.Repeat("x", 2000) + "\r\nhello\r\n0\r\n\r\n",
			err: errLineTooLong},
		{name: "extensions without end", in: chunks + strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n!\r\n", 20) +
			"0\r\n\r\n", body: strings.Repeat("!", 16), err: errChunk},
		{name: "a trailer that is none", in: chunks + "5\r\nhello\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n",
			body: "hello", err: errField},
		{name: "a trailer without end", in: chunks + "0\r\n" + strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 20) +
			"\r\n", err: errChunk},

		{name: "a second answer", in: ok + ok, body: "ok"},
		{name: "a second answer after chunks", in: chunks + "2\r\nok\r\n0\r\n\r\n" + ok, body: "ok"},
		{name: "a second answer after none", in: "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n" + ok, status: 202},
		{name: "a body after 204", in: "HTTP/1.1 204 No Content\r\n\r\nhello", status: 204},
		{name: "a body after HEAD", method: "HEAD", in: head + "Content-Length: 5\r\n\r\nhello"},
		{name: "a line end too much", in: ok + "\r\n", body: "ok"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			method := tt.method
			if method == "" {
				method = http.MethodPost
			}
			for _, step := range []int{0, 1, 7} {
				got := parse([]byte(tt.in), method, step, 4<<10)
				if !errors.Is(got.err, tt.err) || tt.err == nil && got.err != nil {
					t.Fatalf("step %d: error %v, want %v", step, got.err, tt.err)
				}
				if got.body != tt.body {
					t.Errorf("step %d: body %.100q, want %.100q", step, got.body, tt.body)
				}
				if tt.err != nil {
					continue
				}
				want := tt.status
				if want == 0 {
					want = http.StatusOK
				}
				if got.response.StatusCode != want {
					t.Errorf("step %d: status %d, want %d", step, got.response.StatusCode, want)
				}
				// What comes behind an answer is noticed at once or before the next request.
				if again := got.again && got.rest == 0; again != tt.again {
					t.Errorf("step %d: used again: %v, want %v", step, again, tt.again)
				}
			}
		})
	}
}

func TestAnswerFields(t *testing.T) {
	got := parse([]byte("HTTP/1.1 404 Not Found\r\nX-one:  a b \r\nx-One: c\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "POST", 0, 4<<10)
	if got.err != nil {
		t.Fatal(got.err)
	}
	r := got.response
	if r.Status != "404 Not Found" || r.Proto != "HTTP/1.1" || r.ProtoMinor != 1 || r.ContentLength != -1 ||
		len(r.TransferEncoding) != 1 {
		t.Errorf("response %+v", r)
	}
	if len(r.Header) != 2 || strings.Join(r.Header["X-One"], "|") != "a b|c" ||
		r.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("header %q", r.Header)
	}
}

// A read of a stream returns what is there and does not wait for more.
func TestReadReturnsWhatIsThere(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tt := range []struct{ name, first, rest, read string }{
		{"a whole chunk", "5\r\nhello\r\n", "0\r\n\r\n", "hello"},
		{"a chunk without its end", "5\r\nhello", "\r\n0\r\n\r\n", "hello"},
		{"half a chunk", "5\r\nhel", "lo\r\n0\r\n\r\n", "hel"},
		{"half a size", "5\r\nhello\r\n1", "0\r\n0123456789abcdef\r\n0\r\n\r\n", "hello"},
		{"several chunks", "5\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n", "0\r\n\r\n", "hello world"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			goOn := make(chan struct{})
			s := newServer(t, func(_ int, p *peer) {
				p.request()
				p.say(head + tt.first)
				<-goOn
				p.say(tt.rest)
				p.ended()
			})
			resp, err := newTransport(t, Config{}).RoundTrip(post(t, s.url, "x"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			buf := make([]byte, 100)
			n := 0
			for n < len(tt.read) { // TCP may cut it
				k, err := resp.Body.Read(buf[n:])
				if n += k; err != nil {
					t.Fatal(err)
				}
			}
			if string(buf[:n]) != tt.read {
				t.Errorf("read %q, want %q", buf[:n], tt.read)
			}
			close(goOn)
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Error(err)
			}
		})
	}
}

// With the last bytes comes the end, where it is known.
func TestEndComesWithTheLastBytes(t *testing.T) {
	for _, in := range []string{ok, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"} {
		c := newConn(&script{in: bytes.NewReader([]byte(in))}, "host")
		a, err := c.roundTrip(&http.Request{Method: "POST"}, nil, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		b := &a.body
		b.pool, b.ctx, b.stop = newPool(1, time.Hour), context.Background(), func() bool { return true }
		buf := make([]byte, 2) // just as much as there is
		if n, err := b.Read(buf); n != 2 || err != io.EOF {
			t.Errorf("read %d bytes, error %v", n, err)
		}
		if n, err := b.Read(buf); n != 0 || err != io.EOF {
			t.Errorf("then %d bytes, error %v", n, err)
		}
	}
}

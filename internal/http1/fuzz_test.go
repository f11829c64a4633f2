package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// FuzzAnswer holds the reader of answers against net/http's. What we take, net/http
// takes, and reads the same, up to the same byte: we are the stricter ones. And it
// does not matter in how many pieces an answer comes.
func FuzzAnswer(f *testing.F) {
	for _, in := range []string{
		ok,
		ok + ok,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\nConnection: close\r\n\r\nhello",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
		"HTTP/1.1 200\r\nPragma: no-cache\r\nTrailer: A\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
	} {
		f.Add([]byte(in), false)
		f.Add([]byte(in), true)
	}
	f.Fuzz(func(t *testing.T, in []byte, isHead bool) {
		method := http.MethodPost
		if isHead {
			method = http.MethodHead
		}
		const limit = 4 << 10
		ours := parse(in, method, 0, limit)
		for _, step := range []int{1, 3} {
			cut := parse(in, method, step, limit)
			if (cut.err == nil) != (ours.err == nil) || cut.body != ours.body {
				t.Fatalf("in pieces of %d: error %v, body %q\nat once: error %v, body %q", step, cut.err, cut.body,
					ours.err, ours.body)
			}
		}
		if ours.err != nil {
			return
		}
		in = pastInterim(t, in)
		reader := bufio.NewReader(bytes.NewReader(in))
		theirs, err := http.ReadResponse(reader, &http.Request{Method: method})
		if err != nil && ours.response.Header["Trailer"] != nil {
			return // it announces what may not stand in one; we do not look at those
		}
		if err != nil {
			t.Fatalf("net/http refuses it: %v", err)
		}
		body, err := io.ReadAll(theirs.Body)
		if err != nil {
			t.Fatalf("net/http refuses the body: %v", err)
		}
		r := ours.response
		if string(body) != ours.body || theirs.StatusCode != r.StatusCode || theirs.Status != r.Status ||
			theirs.Proto != r.Proto || theirs.ContentLength != r.ContentLength {
			t.Fatalf("ours %+v %q\ntheirs %+v %q", r, ours.body, theirs, body)
		}
		if rest := reader.Buffered(); ours.rest != rest && !(theirs.Close && ours.rest == 0) {
			t.Fatalf("%d bytes are left to us, %d to net/http", ours.rest, rest)
		}
		if ours.again && theirs.Close {
			t.Fatal("net/http closes the connection")
		}
		// What net/http does beside reading.
		for _, name := range []string{"Cache-Control", "Trailer"} {
			theirs.Header.Del(name)
			r.Header.Del(name)
		}
		if len(theirs.Header)+len(r.Header) > 0 && !reflect.DeepEqual(theirs.Header, r.Header) {
			t.Fatalf("header %q, theirs %q", r.Header, theirs.Header)
		}
	})
}

// pastInterim cuts interim answers off, which have no body.
func pastInterim(t *testing.T, in []byte) []byte {
	for {
		line, _, _ := strings.Cut(string(in), "\r\n")
		if !strings.HasPrefix(line[min(len(line), len("HTTP/1.1")):], " 1") {
			return in
		}
		_, rest, found := bytes.Cut(in, []byte("\r\n\r\n"))
		if !found {
			t.Fatal("an interim answer has no end")
		}
		in = rest
	}
}

// FuzzRequest writes requests and has net/http read them: it finds one request, the
// one that was meant, and nothing behind it.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/mcp?a=b", "example.com:80", "Accept", "application/json", "hello")
	f.Add("GET", "/", "[::1]", "X", "", "")
	f.Add("PO\r\nST", "/ HTTP/1.1\r\n", "a\r\nb", "Content-Length", "5\r\n", "x")
	f.Fuzz(func(t *testing.T, method, target, host, name, value, body string) {
		req, err := http.NewRequest("POST", "http://host/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Method, req.URL.Host, req.Host, req.URL.Opaque = method, host, host, target
		req.Header = http.Header{name: {value}}
		if !Handles(req) {
			return
		}
		out, err := appendRequest(nil, req)
		if err != nil {
			return
		}
		reader := bufio.NewReader(bytes.NewReader(out))
		got, err := http.ReadRequest(reader)
		if err != nil {
			if target == "" || target[0] != '/' || strings.Contains(target, "%") {
				return // no URL, which the server refuses
			}
			t.Fatalf("%q: %v", out, err)
		}
		sent, err := io.ReadAll(got.Body)
		if err != nil || string(sent) != body || reader.Buffered() > 0 {
			t.Fatalf("%q: body %q, error %v, %d bytes behind it", out, sent, err, reader.Buffered())
		}
		wantMethod := method
		if method == "" {
			wantMethod = http.MethodGet
		}
		if got.Method != wantMethod || got.RequestURI != req.URL.RequestURI() || got.Host != host && got.URL.Host == "" {
			t.Fatalf("%q: %s %q on %q", out, got.Method, got.RequestURI, got.Host)
		}
		got.Header.Del("Content-Length")
		if len(got.Header) > 1 || strings.TrimSpace(got.Header.Get(name)) != strings.Trim(value, " \t") &&
			got.Header.Get(name) != strings.Trim(value, " \t") {
			t.Fatalf("%q: header %q", out, got.Header)
		}
	})
}

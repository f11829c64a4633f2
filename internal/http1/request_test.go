package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// What is written is what net/http's server reads.
func TestAppendRequest(t *testing.T) {
	for _, tt := range []struct {
		method, url, host, body string
		header                  http.Header
		wantLine                string
		wantLength              string // "" for no such header
	}{
		{"POST", "http://example.com:81/mcp?a=b%20c", "", "hello", http.Header{"Accept": {"a, b"}, "X": {"1", "2"}},
			"POST /mcp?a=b%20c HTTP/1.1", "5"},
		{"POST", "http://example.com", "", "", nil, "POST / HTTP/1.1", "0"},
		{"GET", "http://example.com/a%2fb/%C3%A4", "other.example", "", http.Header{"Authorization": {"Bearer x"}},
			"GET /a%2fb/%C3%A4 HTTP/1.1", ""},
		{"", "http://[::1]:80/ä", "", "", nil, "GET /%C3%A4 HTTP/1.1", ""},
		{"DELETE", "http://example.com/", "", "x", http.Header{"Mcp-Session-Id": {"1"}}, "DELETE / HTTP/1.1", "1"},
		{"POST", "http://example.com/", "", strings.Repeat("x", MaxRequest), nil, "POST / HTTP/1.1", "32768"},
	} {
		req, err := http.NewRequest(tt.method, tt.url, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Method = tt.method
		req.Header = tt.header
		if tt.host != "" {
			req.Host = tt.host
		}
		if what := unsupported(req); what != "" {
			t.Fatalf("not supported: %s", what)
		}
		out, err := appendRequest(nil, req)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(out), "\r\n")
		if line != tt.wantLine {
			t.Errorf("line %q, want %q", line, tt.wantLine)
		}
		got, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(out)))
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		body, err := io.ReadAll(got.Body)
		if err != nil || string(body) != tt.body {
			t.Errorf("body %q, error %v", body, err)
		}
		if got.Host != req.Host {
			t.Errorf("host %q, want %q", got.Host, req.Host)
		}
		if length := got.Header.Get("Content-Length"); length != tt.wantLength {
			t.Errorf("length %q, want %q", length, tt.wantLength)
		}
		got.Header.Del("Content-Length")
		if !maps.EqualFunc(got.Header, tt.header, slices.Equal) {
			t.Errorf("header %q, want %q", got.Header, tt.header)
		}
	}
}

// What could be read as the end of a line, a head or a body is not sent.
func TestRefusedRequests(t *testing.T) {
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = []string{value} }
	}
	for _, tt := range []struct {
		name   string
		change func(*http.Request)
	}{
		{"https", func(r *http.Request) { r.URL.Scheme = "https" }},
		{"no URL", func(r *http.Request) { r.URL = nil }},
		{"no host", func(r *http.Request) { r.URL.Host = "" }},
		{"line end in the host", func(r *http.Request) { r.URL.Host = "a\r\nX: y" }},
		{"line end in the Host", func(r *http.Request) { r.Host = "a\r\nX: y" }},
		{"blank in the host", func(r *http.Request) { r.URL.Host = "a b" }},
		{"path in the host", func(r *http.Request) { r.Host = "a/b" }},
		{"user in the host", func(r *http.Request) { r.Host = "a@b" }},
		{"a user in the URL", func(r *http.Request) { r.URL.User = url.User("a") }},
		{"a zone", func(r *http.Request) { r.URL.Host = "[fe80::1%25en0]:80" }},
		{"a host beyond ASCII", func(r *http.Request) { r.URL.Host = "ä.example" }},
		{"line end in the path", func(r *http.Request) { r.URL.Opaque = "/a HTTP/1.1\r\nX: y" }},
		{"blank in the path", func(r *http.Request) { r.URL.Opaque = "/a b" }},
		{"blank in the query", func(r *http.Request) { r.URL.RawQuery = "a b" }},
		{"line end in the query", func(r *http.Request) { r.URL.RawQuery = "a\r\nX: y" }},
		{"DEL in the query", func(r *http.Request) { r.URL.RawQuery = "\x7f" }},
		{"line end in the method", func(r *http.Request) { r.Method = "POST / HTTP/1.1\r\n" }},
		{"blank in the method", func(r *http.Request) { r.Method = "PO ST" }},
		{"CONNECT", func(r *http.Request) { r.Method = "CONNECT" }},
		{"line end in a value", header("X", "a\r\nY: b")},
		{"CR in a value", header("X", "a\rb")},
		{"LF in a value", header("X", "a\nb")},
		{"NUL in a value", header("X", "a\x00b")},
		{"line end in a name", header("X: a\r\nY", "b")},
		{"blank in a name", header("X ", "b")},
		{"colon in a name", header("X:", "b")},
		{"no name", header("", "b")},
		{"Content-Length", header("Content-Length", "9")},
		{"content-length", header("content-length", "9")},
		{"Transfer-Encoding", header("Transfer-Encoding", "chunked")},
		{"tRANSFER-eNCODING", header("tRANSFER-eNCODING", "chunked")},
		{"Host", header("Host", "other")},
		{"Connection", header("Connection", "x")},
		{"Upgrade", header("Upgrade", "h2c")},
		{"Expect", header("Expect", "100-continue")},
		{"TE", header("Te", "trailers")},
		{"Trailer", header("Trailer", "X")},
		{"transfer encoding", func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }},
		{"trailer", func(r *http.Request) { r.Trailer = http.Header{"X": nil} }},
		{"unknown length", func(r *http.Request) { r.ContentLength = -1 }},
		{"a body without length", func(r *http.Request) { r.ContentLength = 0 }},
		{"a length without body", func(r *http.Request) { r.Body = nil }},
		{"a length with no body", func(r *http.Request) { r.Body = http.NoBody }},
		{"a large body", func(r *http.Request) { r.ContentLength = MaxRequest + 1 }},
		{"a body that is too short", func(r *http.Request) { r.ContentLength++ }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, func(_ int, p *peer) {
				if n, _ := io.Copy(io.Discard, p); n > 0 {
					t.Error("something was sent")
				}
			})
			req := post(t, s.url, "hello")
			body := &closing{Reader: strings.NewReader("hello")}
			req.Body = body
			tt.change(req)
			if resp, err := newTransport(t, Config{}).RoundTrip(req); err == nil {
				resp.Body.Close()
				t.Error("it was sent")
			}
			if req.Body == body && !body.closed {
				t.Error("the body was not closed")
			}
		})
	}
}

// An error does not repeat a value, which may be a secret.
func TestErrorsKeepSecrets(t *testing.T) {
	req := post(t, "http://127.0.0.1:1", "")
	req.Header["Authorization"] = []string{"Bearer s3cret\n"}
	if _, err := newTransport(t, Config{}).RoundTrip(req); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v", err)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDeaf }
func (failing) Close() error             { return nil }

func TestBodyFails(t *testing.T) {
	req := post(t, "http://127.0.0.1:1", "")
	req.Body, req.ContentLength = failing{}, 5
	if _, err := newTransport(t, Config{}).RoundTrip(req); !errors.Is(err, errDeaf) {
		t.Errorf("error %v", err)
	}
}

func TestHandles(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"http":    {func(*http.Request) {}, canReuse},
		"https":   {func(r *http.Request) { r.URL.Scheme = "https" }, false},
		"large":   {func(r *http.Request) { r.ContentLength = MaxRequest + 1 }, false},
		"chunked": {func(r *http.Request) { r.ContentLength = -1 }, false},
	} {
		req := post(t, "http://example.com/", "x")
		tt.change(req)
		if got := Handles(req); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

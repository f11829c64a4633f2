package front

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// lasting is a long-lived answer, byte by byte.
type lasting struct {
	*bufio.Reader
	conn net.Conn
	resp *http.Response // its body was not read
}

// lastingKinds returns the requests with long-lived answers.
func lastingKinds(t *testing.T, b *bench, version string) map[string]string {
	t.Helper()
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + meta + `}}`
	head := " HTTP/" + version + "\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"
	return map[string]string{
		"GET":      "GET /" + head + "Mcp-Session-Id: " + b.client(v2511).Session + "\r\n\r\n",
		"HTTP+SSE": "GET " + ssePath + head + "\r\n",
		"listen": "POST /" + head +
			"Content-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n" +
			fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(listen), listen),
	}
}

// open makes a request to a server of its own. It returns when the handler has returned and
// the stream has begun.
func (b *bench) open(t *testing.T, request string) *lasting {
	t.Helper()
	returned := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.ServeHTTP(w, r)
		returned <- struct{}{}
	}))
	t.Cleanup(server.Close)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(tooLong))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	l := &lasting{Reader: bufio.NewReader(conn), conn: conn}
	if l.resp, err = http.ReadResponse(l.Reader, nil); err != nil {
		t.Fatal(err)
	}
	if l.resp.StatusCode != http.StatusOK || l.resp.Header.Get("Content-Type") != "text/event-stream" || !l.resp.Close {
		t.Fatalf("%d %v, closes: %t", l.resp.StatusCode, l.resp.Header, l.resp.Close)
	}
	receive(t, "the end of the handler", returned)
	return l
}

// rest ends the front, and returns what was on the stream.
func (l *lasting) rest(t *testing.T, b *bench) string {
	t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- b.front.Close(t.Context()) }()
	text, err := io.ReadAll(l.resp.Body)
	if err != nil {
		t.Errorf("no good end: %v after %q", err, text)
	}
	// Input of the client that was not read yet resets the connection.
	if more, err := io.ReadAll(l.Reader); len(more) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the end: %q %v", more, err)
	}
	if err := receive(t, "the front's end", closed); err != nil {
		t.Errorf("closing: %v", err)
	}
	return string(text)
}

// TestALastingAnswerOutlastsItsHandler: the answer is whole, in both versions of HTTP.
func TestALastingAnswerOutlastsItsHandler(t *testing.T) {
	for _, version := range []string{"1.1", "1.0"} {
		for _, kind := range []string{"GET", "HTTP+SSE", "listen"} {
			t.Run(kind+" "+version, func(t *testing.T) {
				b := newBench(t, Config{})
				l := b.open(t, lastingKinds(t, b, version)[kind])
				if chunked := len(l.resp.TransferEncoding) > 0; chunked != (version == "1.1") {
					t.Errorf("chunked: %t", chunked)
				}
				if kind == "HTTP+SSE" { // the client has no session yet
					if text := l.rest(t, b); !strings.Contains(text, "event: endpoint\ndata: ") {
						t.Errorf("got %q", text)
					}
					return
				}
				b.script.waitListening(t, 1)
				large := strings.Repeat("x", 64<<10)
				b.script.emit(mcp.NoteToolsListChanged, `{}`)
				b.script.emit(mcp.NoteToolsListChanged, `{"x":"`+large+`"}`)
				if text := l.rest(t, b); strings.Count(text, mcp.NoteToolsListChanged) != 2 || !strings.Contains(text, large) {
					t.Errorf("got %.2000q", text)
				}
				b.script.waitListening(t, 0)
			})
		}
	}
}

// TestALastingAnswerEndsWithItsClient: it does, and what the client sends after its request is
// ignored.
func TestALastingAnswerEndsWithItsClient(t *testing.T) {
	for _, kind := range []string{"GET", "HTTP+SSE", "listen"} {
		for name, leave := range map[string]func(*lasting) error{
			"closes":         func(l *lasting) error { return l.conn.Close() },
			"sends no more":  func(l *lasting) error { return l.conn.(*net.TCPConn).CloseWrite() },
			"sends far more": func(l *lasting) error { _, err := io.WriteString(l.conn, strings.Repeat("x", 16<<10)); return err },
			"asks for another": func(l *lasting) error {
				_, err := io.WriteString(l.conn, smuggled)
				return errors.Join(err, l.conn.Close())
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				b := newBench(t, Config{})
				l := b.open(t, lastingKinds(t, b, "1.1")[kind])
				if err := leave(l); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					b.front.endpoint.Running.Streams.Wait()
					b.front.endpoint.Running.Requests.Wait()
				}()
				if kind == "GET" { // its session's listener continues
					b.front.Sessions.StopListening()
				}
				receive(t, "the end", ended)
			})
		}
	}
}

// TestAnotherRequestOnALastingAnswer: it is not answered, and the stream continues.
func TestAnotherRequestOnALastingAnswer(t *testing.T) {
	b := newBench(t, Config{})
	l := b.open(t, lastingKinds(t, b, "1.1")["GET"])
	b.script.waitListening(t, 1)
	if _, err := io.WriteString(l.conn, smuggled); err != nil {
		t.Fatal(err)
	}
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	if text := l.rest(t, b); strings.Count(text, mcp.NoteToolsListChanged) != 1 || strings.Contains(text, "HTTP/1.1") {
		t.Errorf("got %q", text)
	}
}

// TestNobodyWaitsForAClientThatReadsNothing: when its time is over, a front closes the
// connections that streams have taken over, which net/http does not know any more.
func TestNobodyWaitsForAClientThatReadsNothing(t *testing.T) {
	b := newBench(t, Config{})
	b.front.endpoint.Writer.Timeout = time.Hour
	request := http.Header{"Mcp-Protocol-Version": {v2607}, "Mcp-Method": {"subscriptions/listen"}}
	s := b.silent(t,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+
			meta+`}}`, request)
	s.line(t, "data: ")
	b.script.emit(mcp.NoteToolsListChanged, `{"x":"`+strings.Repeat("x", stream.MaxUnsent)+`"}`)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.front.Close(now); err == nil {
		t.Error("it was not waited for")
	}
	if err := b.front.Close(t.Context()); err != nil { // it ends
		t.Error(err)
	}
}

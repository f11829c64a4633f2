package doorway

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tlsfiles"
)

// serveTLS is serve over TLS. The second result is the configuration of a client.
func serveTLS(t *testing.T, cfg Config, change func(*http.Server)) (*serving, *tls.Config) {
	t.Helper()
	a := mcptest.NewAuthority(t)
	cert, key := a.Issue(t, "server", time.Hour)
	live, err := tlsfiles.Server{CertFile: cert, KeyFile: key}.Open(tlsfiles.Orders{})
	if err != nil {
		t.Fatal(err)
	}
	client := a.Client(t, "")
	client.ServerName = "localhost"
	return serveWith(t, listen(t), cfg, func(s *http.Server) {
		s.TLSConfig = live.Config()
		if change != nil {
			change(s)
		}
	}), client
}

// shake makes a connection over TLS.
func shake(t *testing.T, conn net.Conn, client *tls.Config) (*tls.Conn, *bufio.Reader) {
	t.Helper()
	over := tls.Client(conn, client)
	t.Cleanup(func() { over.Close() })
	if err := over.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return over, bufio.NewReader(over)
}

// streams is a client with one connection that speaks HTTP/2.
func streams(t *testing.T, l net.Listener, client *tls.Config) *http.ClientConn {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: true}
	c, err := transport.NewClientConn(t.Context(), "https", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// begun is a connection that has brought the beginning of HTTP/2, and no request.
func begun(t *testing.T, l net.Listener, client *tls.Config) *tls.Conn {
	t.Helper()
	conn, _ := connect(t, l)
	client = client.Clone()
	client.NextProtos = []string{"h2"}
	over, in := shake(t, conn, client)
	io.WriteString(over, http2.ClientPreface)
	framer := http2.NewFramer(over, in)
	if err := errors.Join(framer.WriteSettings(), framer.WritePing(false, [8]byte{})); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if frame.Header().Type == http2.FramePing {
			return over
		}
	}
}

// post sends a request over HTTP/2 and returns the body of the answer.
func post(t *testing.T, c *http.ClientConn, path string, body io.Reader) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(answer.StatusCode, " ", string(text))
}

// TestHTTP2: many requests are answered on one connection, which counts once.
func TestHTTP2(t *testing.T) {
	s, client := serveTLS(t, Config{}, nil)
	c := streams(t, s.listener, client)
	for range 20 {
		if got := post(t, c, "/a", strings.NewReader("hi")); got != "200 POST /a hi true" {
			t.Error(got)
		}
	}
	if n := value(t, s.metrics.open); n != 1 {
		t.Errorf("%v connections are counted", n)
	}
}

// TestHTTP2WithoutRequest: a connection that has brought the beginning of HTTP/2 alone has brought no
// request, and makes room.
func TestHTTP2WithoutRequest(t *testing.T) {
	s, client := serveTLS(t, Config{Max: 2, PerAddress: 2}, nil)
	used := streams(t, s.listener, client)
	post(t, used, "/a", nil)
	unused := begun(t, s.listener, client)
	conn, _ := connect(t, s.listener)
	over, in := shake(t, conn, client)
	if answer, _ := answerTo(t, over, in, otherRequest); answer.StatusCode != 200 {
		t.Error(answer.Status)
	}
	_ = unused.SetReadDeadline(time.Now().Add(3 * time.Second))
	if _, err := io.Copy(io.Discard, unused); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection without a request is open")
	}
	if got := post(t, used, "/a", nil); !strings.HasPrefix(got, "200") {
		t.Error(got)
	}
}

// TestHTTP2RequestsAtATime: requests on one connection are bounded as connections of one address are.
func TestHTTP2RequestsAtATime(t *testing.T) {
	s, client := serveTLS(t, Config{Max: 10, PerAddress: 3}, nil)
	c := streams(t, s.listener, client)
	bodies := make([]*io.PipeWriter, 3)
	answers := make(chan string, len(bodies))
	for i := range bodies {
		var body *io.PipeReader
		body, bodies[i] = io.Pipe()
		go func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost/a", body)
			answer, err := c.RoundTrip(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer answer.Body.Close()
			answers <- answer.Status
		}()
		io.WriteString(bodies[i], "h")
		s.wait(t, i+1)
	}
	if got := post(t, c, "/a", nil); !strings.HasPrefix(got, "503") || value(t, s.metrics.overloaded) != 1 {
		t.Errorf("a fourth request: %s", got)
	}
	for _, body := range bodies {
		body.Close()
		if got := <-answers; got != "200 OK" {
			t.Error(got)
		}
	}
	s.wait(t, 0)
	if got := post(t, c, "/a", nil); !strings.HasPrefix(got, "200") {
		t.Errorf("after the others: %s", got)
	}
}

// TestHTTP2DeadlineOfWrites: the time limit of a write does not end an answer in which nothing is written
// for longer, and a client that reads nothing does not hold a write for ever.
func TestHTTP2DeadlineOfWrites(t *testing.T) {
	mcptest.Long(t)
	t.Parallel()
	const limit = 2 * time.Second // it is that of the handshake, too
	beat, failed := make(chan struct{}), make(chan error, 1)
	s, client := serveTLS(t, Config{}, func(s *http.Server) {
		s.WriteTimeout = limit
		s.Handler = Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			write := func(text string) error {
				_ = rc.SetWriteDeadline(time.Now().Add(limit))
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
				return rc.Flush()
			}
			if r.URL.Path == "/flood" {
				err := error(nil)
				for err == nil {
					err = write(strings.Repeat("x", 1<<20))
				}
				failed <- err
				return
			}
			write("one ")
			<-beat
			write("two")
		}))
	})
	c := streams(t, s.listener, client)
	time.AfterFunc(3*limit, func() { close(beat) })
	if got := post(t, c, "/quiet", nil); got != "200 one two" {
		t.Error(got)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/flood", nil)
	answer, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil { // while nothing is read
		t.Error("it ended")
	}
	answer.Body.Close()
}

// TestSlowHandshakes: connections that never finish their handshake make room for a client that does.
func TestSlowHandshakes(t *testing.T) {
	s, client := serveTLS(t, Config{Max: 8, PerAddress: 4}, nil)
	var slow []net.Conn
	for range 4 {
		conn, _ := connect(t, s.listener)
		io.WriteString(conn, "\x16\x03\x01\x02\x00\x01") // the beginning of a ClientHello
		slow = append(slow, conn)
	}
	for range 4 {
		conn, _ := connect(t, s.listener)
		over, in := shake(t, conn, client)
		if answer, _ := answerTo(t, over, in, plainRequest); answer.StatusCode != 200 {
			t.Fatal(answer.Status)
		}
	}
	for _, conn := range slow {
		_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection without a handshake is open")
		}
	}
}

// TestHandshakeTime: a handshake that takes too long ends.
func TestHandshakeTime(t *testing.T) {
	s, _ := serveTLS(t, Config{}, func(s *http.Server) { s.ReadHeaderTimeout = 50 * time.Millisecond })
	conn, in := connect(t, s.listener)
	io.WriteString(conn, "\x16\x03\x01\x02\x00\x01")
	_ = conn.SetReadDeadline(time.Now().Add(3 * time.Second))
	if _, err := in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is open: %v", err)
	}
}

// TestPlainHTTPToTLS: a client that speaks plain HTTP learns why there is no answer.
func TestPlainHTTPToTLS(t *testing.T) {
	s, _ := serveTLS(t, Config{}, nil)
	conn, in := connect(t, s.listener)
	answer, body := answerTo(t, conn, in, otherRequest)
	if answer.StatusCode != 400 || !strings.Contains(body, "HTTPS") {
		t.Errorf("%s %q", answer.Status, body)
	}
}

// TestProxyProtocolBeforeTLS: the header of the PROXY protocol comes before the handshake.
func TestProxyProtocolBeforeTLS(t *testing.T) {
	s, client := serveTLS(t, Config{Proxies: []string{"127.0.0.1"}, ProxyProtocol: true}, nil)
	for _, version := range []byte{1, 2} {
		conn, _ := connect(t, s.listener)
		io.WriteString(conn, header(t, version, "192.0.2.7:5000"))
		over, in := shake(t, conn, client)
		answer, _ := answerTo(t, over, in, plainRequest)
		if got := answer.Header.Get("Seen"); got != "192.0.2.7 192.0.2.7:5000" {
			t.Errorf("version %d: seen: %s", version, got)
		}
	}
	conn, _ := connect(t, s.listener)
	if err := tls.Client(conn, client).HandshakeContext(t.Context()); err == nil {
		t.Error("a handshake without the header")
	}
}

// TestTLSEnds: the end closes idle connections and those in their handshake, and answers what has begun.
func TestTLSEnds(t *testing.T) {
	s, client := serveTLS(t, Config{}, nil)
	c := streams(t, s.listener, client)
	post(t, c, "/a", nil)
	connect(t, s.listener)
	begun(t, s.listener, client)
	for value(t, s.metrics.open) != 3 {
		runtime.Gosched()
	}
	body, more := io.Pipe()
	answer := make(chan string, 1)
	go func() { answer <- post(t, c, "/a", body) }()
	io.WriteString(more, "h")
	s.wait(t, 1)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	io.WriteString(more, "i")
	more.Close()
	if got := <-answer; got != "200 POST /a hi true" {
		t.Error(got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package doorway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// value returns the value of a gauge or a counter.
func value(t *testing.T, of prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	if err := of.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue() + m.GetCounter().GetValue()
}

// serving is a server of a test. Its handler answers with the method, the path and the body.
type serving struct {
	*http.Server
	listener net.Listener
	metrics  *Metrics
	door     *Listener
	ended    chan error
}

// wait waits until as many requests run over HTTP/2.
func (s *serving) wait(t *testing.T, requests int) {
	t.Helper()
	for t.Context().Err() == nil {
		s.door.mu.Lock()
		now := s.door.requests
		s.door.mu.Unlock()
		if now == requests {
			return
		}
		runtime.Gosched()
	}
}

func serve(t *testing.T, listener net.Listener, cfg Config) *serving {
	t.Helper()
	return serveWith(t, listener, cfg, func(*http.Server) {})
}

// serveWith is serve with a change of the server.
func serveWith(t *testing.T, listener net.Listener, cfg Config, change func(*http.Server)) *serving {
	t.Helper()
	cfg = cfg.WithDefaults()
	s := &serving{metrics: NewMetrics(prometheus.NewRegistry()), listener: listener, ended: make(chan error, 1)}
	quiet := log.New(io.Discard, "", 0)
	s.Server = &http.Server{ReadHeaderTimeout: time.Minute, WriteTimeout: time.Minute, ErrorLog: quiet,
		Handler: Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("oh")
			}
			body, _ := io.ReadAll(r.Body)
			v := r.Context().Value(visitorKey{}).(*visitor)
			w.Header().Set("Seen", Client(r)+" "+r.RemoteAddr)
			fmt.Fprint(w, r.Method, " ", r.URL.Path, " ", string(body), " ", v.known.Load())
		}))}
	change(s.Server)
	s.door = New(listener, cfg, s.metrics)
	go func() { s.ended <- s.door.Serve(s.Server) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		for value(t, s.metrics.open) != 0 { // net/http closes its connections after Shutdown
			runtime.Gosched()
		}
	})
	return s
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func connect(t *testing.T, l net.Listener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}

// TestServer: requests of all kinds are answered on one connection, in their order, and the
// connection counts once.
func TestServer(t *testing.T) {
	const chunked = "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
	text := strings.Repeat("x", 100_000)
	large := fmt.Sprintf("POST /d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	steps := []struct{ in, want string }{
		{plainRequest, "POST /a hi true"},
		{"GET /b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /b  true"},
		{plainRequest, "POST /a hi true"},
		{chunked, "POST /c hi true"},
		{large, "POST /d " + text + " true"},
	}
	s := serve(t, listen(t), Config{})
	conn, in := connect(t, s.listener)
	for _, step := range steps {
		if _, body := answerTo(t, conn, in, step.in); body != step.want {
			t.Errorf("%.80q: %.80q", step.in, body)
		}
		if n := value(t, s.metrics.open); n != 1 {
			t.Errorf("%v connections are counted", n)
		}
	}
}

// TestServerPipelines: requests that come together are all answered.
func TestServerPipelines(t *testing.T) {
	s := serve(t, listen(t), Config{})
	conn, in := connect(t, s.listener)
	const n = 50
	go io.WriteString(conn, strings.Repeat("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", n))
	for i := range n {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != "POST /a hi true" || err != nil {
			t.Errorf("answer %d: %q, error %v", i, body, err)
		}
	}
}

// TestServerPanics: a panic ends its connection alone.
func TestServerPanics(t *testing.T) {
	s := serve(t, listen(t), Config{})
	for range 2 {
		conn, in := connect(t, s.listener)
		if _, err := io.WriteString(conn, "POST /panic HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("after a panic: %v", err)
		}
	}
}

// failing is a listener that fails a few times.
type failing struct {
	net.Listener
	left int
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return false }

func (l *failing) Accept() (net.Conn, error) {
	if l.left > 0 {
		l.left--
		return nil, temporary{errors.New("no file descriptor is left")}
	}
	return l.Listener.Accept()
}

// TestServerFailures: while no connection can be accepted, the server tries again.
func TestServerFailures(t *testing.T) {
	s := serve(t, &failing{listen(t), 3}, Config{})
	conn, in := connect(t, s.listener)
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Error(err)
	}
	if n := value(t, s.metrics.notAccepted); n != 3 {
		t.Errorf("%v failures are counted", n)
	}
}

// TestServerFails: a listener that somebody else has closed ends the server.
func TestServerFails(t *testing.T) {
	s := serve(t, listen(t), Config{})
	s.listener.Close()
	err := <-s.ended
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	s.ended <- http.ErrServerClosed // for the end of the test
}

// TestServerEnds: the end does not wait for connections on which no request has begun, and a request
// that has begun is answered.
func TestServerEnds(t *testing.T) {
	s := serve(t, listen(t), Config{})
	begun, in := connect(t, s.listener)
	if answer, _ := answerTo(t, begun, in, otherRequest); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	io.WriteString(begun, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, error %v", line, err)
	}
	silent, _ := connect(t, s.listener)
	half, _ := connect(t, s.listener)
	io.WriteString(half, plainRequest[:20])
	for value(t, s.metrics.open) != 3 {
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(t.Context()) }()
	for _, unused := range []net.Conn{silent, half} {
		_ = unused.SetReadDeadline(time.Now().Add(3 * time.Second)) // net/http waits for five
		if _, err := unused.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a connection without a request is open")
		}
	}
	if len(ended) > 0 {
		t.Error("it has not waited for the request")
	}
	if _, err := in.ReadString('\n'); err != nil { // behind 100
		t.Fatal(err)
	}
	if answer, body := answerTo(t, begun, in, "hi"); !answer.Close || !strings.HasPrefix(body, "POST /a hi") {
		t.Errorf("%s %q", answer.Status, body)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package audit

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// collector is a syslog receiver for messages with their length in front.
type collector struct {
	net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	open  []net.Conn
	heads []string
	lines []*strings.Builder // of each connection, in the order of their beginnings
}

// listen starts a collector; config is for TLS, nil without it.
func listen(t *testing.T, config *tls.Config) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	c := &collector{Listener: l}
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			lines := new(strings.Builder)
			c.mu.Lock()
			c.open, c.lines = append(c.open, conn), append(c.lines, lines)
			c.mu.Unlock()
			c.wg.Go(func() { c.read(conn, lines) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.hangUp()
		c.wg.Wait()
	})
	return c
}

func (c *collector) read(conn net.Conn, lines *strings.Builder) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		digits, err := in.ReadString(' ')
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(digits))
		if err != nil {
			return
		}
		message := make([]byte, n)
		if _, err := io.ReadFull(in, message); err != nil {
			return
		}
		c.take(string(message), lines)
	}
}

// take divides a message into its head and its text, which is one of lines.
func (c *collector) take(message string, lines *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head, line, _ := strings.Cut(message, " - ")
	c.heads = append(c.heads, head)
	lines.WriteString(line + "\n")
}

// hangUp closes all connections.
func (c *collector) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for _, lines := range c.lines {
		all.WriteString(lines.String())
	}
	return all.String()
}

// got waits for a record.
func (c *collector) got(t *testing.T, id string) {
	t.Helper()
	until(t, "the record "+id, func() bool { return strings.Contains(c.text(), `"id":"`+id+`"`) })
}

var syslogHead = regexp.MustCompile(`^<(\d+)>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [!-~]+ ([!-~]+) \d+ ([a-z]+)$`)

// TestSyslog: the messages have the form of RFC 5424, whatever carries them, and their texts
// are the lines of one chain.
func TestSyslog(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificates(t)
	for name, tt := range map[string]struct {
		sink  func(*testing.T) (Sink, *collector)
		facil int
		app   string
	}{
		"tcp": {func(t *testing.T) (Sink, *collector) {
			c := listen(t, nil)
			return Sink{URL: "tcp://" + c.Addr().String()}, c
		}, 13, "gatehouse"},
		"tls": {func(t *testing.T) (Sink, *collector) {
			c := listen(t, serverTLS(t, certFile, keyFile))
			return Sink{URL: "tls://" + c.Addr().String(), CAFile: certFile, CertFile: certFile, KeyFile: keyFile,
				Facility: "local3", AppName: "door"}, c
		}, 19, "door"},
		"udp": {func(t *testing.T) (Sink, *collector) {
			addr, c := datagrams(t, "udp", "127.0.0.1:0")
			return Sink{URL: "udp://" + addr}, c
		}, 13, "gatehouse"},
		"unix": {func(t *testing.T) (Sink, *collector) {
			addr, c := datagrams(t, "unixgram", filepath.Join(t.TempDir(), "log"))
			return Sink{URL: "unix://" + addr}, c
		}, 13, "gatehouse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := tt.sink(t)
			s.Type = TypeSyslog
			j := started(t, remoteConfig("", 0, s), Deps{retry: short})
			j.Put(&record.Record{Kind: record.KindCall, ID: "1", Outcome: "ok", Name: "ä \n - "})
			j.Put(&record.Record{Kind: record.KindSignIn, ID: "2", Event: "refused"})
			j.Put(&record.Record{Kind: record.KindCall, ID: "3", Outcome: "upstream"})
			j.Put(&record.Record{Kind: record.KindCall, ID: "4", Outcome: "internal"})
			closed(t, j)
			until(t, "the last message", func() bool { return strings.Contains(c.text(), `"event":"stop"`) })
			wantRows(t, rows(t, c.text()), "anchor start", "1", "2", "3", "4", "anchor stop")
			for i, want := range []string{"6 anchor", "6 call", "5 signin", "4 call", "3 call", "6 anchor"} {
				severity, kind, _ := strings.Cut(want, " ")
				n, _ := strconv.Atoi(severity)
				m := syslogHead.FindStringSubmatch(c.heads[i])
				if m == nil || m[1] != strconv.Itoa(8*tt.facil+n) || m[2] != tt.app || m[3] != kind {
					t.Errorf("message %d begins with %q, want severity %s", i, c.heads[i], want)
				}
			}
		})
	}
}

// datagrams starts a collector of messages that come one by one.
func datagrams(t *testing.T, network, address string) (addr string, c *collector) {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	lines := new(strings.Builder)
	c = &collector{lines: []*strings.Builder{lines}}
	c.wg.Go(func() {
		for message := make([]byte, 1<<16); ; {
			n, _, err := conn.ReadFrom(message)
			if err != nil {
				return
			}
			c.take(string(message[:n]), lines)
		}
	})
	t.Cleanup(func() {
		conn.Close()
		c.wg.Wait()
	})
	return conn.LocalAddr().String(), c
}

// TestSyslogReconnects: when the receiver has closed the connection, or was not there, the chain
// goes on over the next one.
func TestSyslogReconnects(t *testing.T) {
	t.Parallel()
	c := listen(t, nil)
	j := started(t, remoteConfig(OnFullBlock, 0, Sink{Type: TypeSyslog, URL: "tcp://" + c.Addr().String()}),
		Deps{retry: short})
	w := j.workers[0]
	for i := range 5 {
		id := fmt.Sprint(i)
		j.Put(call(id))
		c.got(t, id)
		gone := w.out.(*syslog).gone // the worker is idle: it has written, and gone does not change
		c.hangUp()
		<-gone
	}
	closed(t, j)
	until(t, "the last message", func() bool { return strings.Contains(c.text(), `"event":"stop"`) })
	wantRows(t, rows(t, c.text()), "anchor start", "0", "1", "2", "3", "4", "anchor stop")
}

// TestSyslogRepeats: what was under way when a connection broke is sent again, byte for byte, so
// that a receiver can drop what it has twice.
func TestSyslogRepeats(t *testing.T) {
	t.Parallel()
	out := &syslog{to: receiver{scheme: "tcp"}, timeout: time.Minute, origin: " h a 1 "}
	j := started(t, Config{}, Deps{retry: short})
	defer closed(t, j)
	w := newWorker(setup{sink: Sink{Type: TypeSyslog, Name: "syslog"}}, out, j, nil, 1)
	var texts []string
	for range 2 {
		a, b := net.Pipe()
		out.conn, out.gone = a, make(chan struct{})
		go watch(a, out.gone)
		read := make(chan string)
		go func() {
			part := make([]byte, 200)
			_, _ = io.ReadFull(b, part)
			b.Close() // in the middle
			read <- string(part)
		}()
		if err := w.try([]*record.Record{{Kind: record.KindCall, ID: "1", Time: time.Unix(1, 0)}}, record.EventStart,
			time.Unix(1, 0)); err == nil {
			t.Error("a broken connection is no error")
		}
		texts = append(texts, <-read)
		if out.conn != nil {
			t.Error("the connection is used again")
		}
	}
	if texts[0] != texts[1] {
		t.Errorf("first %q, then %q", texts[0], texts[1])
	}
}

// TestSyslogRefused: a receiver whose certificate nobody vouches for gets nothing. When it has
// another one, it gets everything.
func TestSyslogRefused(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificates(t)
	otherCert, otherKey := certificates(t)
	pair, other := serverTLS(t, certFile, keyFile), serverTLS(t, otherCert, otherKey)
	var mu sync.Mutex
	good := false
	config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mu.Lock()
		defer mu.Unlock()
		if good {
			return pair, nil
		}
		return other, nil
	}}
	c := listen(t, config)
	metrics := NewMetrics(prometheus.NewRegistry())
	j := started(t, remoteConfig("", 0, Sink{Type: TypeSyslog, URL: "tls://" + c.Addr().String(), CAFile: certFile,
		CertFile: certFile, KeyFile: keyFile}), Deps{Metrics: metrics, retry: short})
	j.Put(call("1"))
	until(t, "a failure", func() bool { return value(t, metrics.failures) > 1 })
	if text := c.text(); text != "" {
		t.Errorf("it got %q", text)
	}
	mu.Lock()
	good = true
	mu.Unlock()
	c.got(t, "1")
	closed(t, j)
}

// TestLongDatagrams: what does not fit into a datagram is cut, and delays nothing else.
func TestLongDatagrams(t *testing.T) {
	t.Parallel()
	addr, c := datagrams(t, "unixgram", filepath.Join(t.TempDir(), "log"))
	j := started(t, remoteConfig("", 0, Sink{Type: TypeSyslog, URL: "unix://" + addr}), Deps{retry: short})
	names := make([]string, 100)
	for i := range names {
		names[i] = strings.Repeat("n", maxName)
	}
	j.Put(&record.Record{Kind: record.KindLists, Added: names})
	j.Put(call("1"))
	c.got(t, "1")
	closed(t, j)
	if n := len(strings.Split(c.text(), "\n")[1]); n > datagramBytes || n < datagramBytes-200 {
		t.Errorf("a message has %d bytes", n)
	}
}

const maxName = 2000

package audit

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// datagramBytes is the size of the largest syslog message in one datagram. What is longer is
// cut: a datagram that does not fit would be refused for ever.
const datagramBytes = 60_000

// syslogTime is TIMESTAMP of RFC 5424 §6.2.3, in UTC.
const syslogTime = "2006-01-02T15:04:05.000000Z"

// facilities are those of RFC 5424 §6.2.1 that suit records.
var facilities = map[string]int{
	"user": 1, "daemon": 3, "auth": 4, "authpriv": 10, "audit": 13,
	"local0": 16, "local1": 17, "local2": 18, "local3": 19, "local4": 20, "local5": 21, "local6": 22, "local7": 23,
}

// severities are those of RFC 5424 §6.2.1 by level.
var severities = [...]int{levelInfo: 6, levelNotice: 5, levelWarning: 4, levelError: 3}

// syslog sends records as messages of RFC 5424, with the line as their text: over TCP and TLS with
// the length in front (RFC 6587 §3.4.1, RFC 5425), over UDP (RFC 5426) and to a Unix socket one in
// a datagram.
type syslog struct {
	to       receiver
	tls      *tls.Config // nil for none
	timeout  time.Duration
	facility int
	origin   string // what follows the time: host, program and process

	conn net.Conn      // nil for none
	gone chan struct{} // closed when the receiver has closed conn; nil for datagrams
	sent progress      // of datagrams
	text []byte
}

func newSyslog(s Sink) (*syslog, error) {
	to, err := target(s.URL, []string{"tls", "tcp", "udp", "unix"})
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // "-" stands for one that is not known
	origin := " " + cmp.Or(printable(host, 255), "-") + " " + s.AppName + " " + strconv.Itoa(os.Getpid()) + " "
	out := &syslog{to: to, timeout: s.Timeout, facility: facilities[s.Facility], origin: origin}
	if to.scheme == "tls" {
		if out.tls, err = s.certificates().Config(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

var notPrintable = regexp.MustCompile(`[^!-~]+`)

// printable returns the part of a text that may stand in the head of a message.
func printable(text string, most int) string {
	text = notPrintable.ReplaceAllString(text, "")
	return text[:min(len(text), most)]
}

// stream reports whether messages go over one connection, and not each in a datagram.
func (s *syslog) stream() bool { return s.to.scheme == "tcp" || s.to.scheme == "tls" }

// ready connects, unless there is a connection that the receiver has not closed.
func (s *syslog) ready(ctx context.Context, _ *record.Chain) (head, error) {
	select {
	case <-s.gone: // never, for datagrams
		s.disconnect()
	default:
	}
	if s.conn != nil {
		return head{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var err error
	switch s.to.scheme {
	case "tls":
		s.conn, err = (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.to.address())
	case "unix":
		s.conn, err = (&net.Dialer{}).DialContext(ctx, "unixgram", s.to.path)
	default:
		s.conn, err = (&net.Dialer{}).DialContext(ctx, s.to.scheme, s.to.address())
	}
	if err != nil {
		s.conn = nil
		return head{}, err
	}
	if s.stream() {
		s.gone = make(chan struct{})
		go watch(s.conn, s.gone)
	}
	return head{}, nil
}

// watch waits until the receiver closes the connection. It has nothing to say otherwise.
func watch(conn net.Conn, gone chan<- struct{}) {
	defer close(gone)
	_, _ = io.Copy(io.Discard, conn) // every end is one
}

// disconnect closes the connection and waits for its watcher.
func (s *syslog) disconnect() {
	if s.conn == nil {
		return
	}
	s.conn.Close()
	if s.gone != nil {
		<-s.gone
	}
	s.conn, s.gone = nil, nil
}

// write sends all entries. When a stream breaks, there is no telling what has arrived, so the whole
// batch is sent again over the next one.
func (s *syslog) write(ctx context.Context, entries []entry) error {
	conn := s.conn
	_ = conn.SetWriteDeadline(time.Now().Add(s.timeout)) // a broken connection shows below
	cut := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Unix(1, 0)) })
	var err error
	if s.stream() {
		s.text = s.text[:0]
		for _, e := range entries {
			s.text = s.frame(s.text, e)
		}
		_, err = conn.Write(s.text)
	} else {
		err = s.datagrams(entries)
	}
	if !cut() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if over, ok := conn.(*tls.Conn); ok {
			over.NetConn().Close() // without the farewell of TLS, which a broken connection delays
		}
		s.disconnect()
	}
	return err
}

func (s *syslog) datagrams(entries []entry) error {
	for _, e := range s.sent.rest(entries) {
		s.text = s.message(s.text[:0], e)
		if _, err := s.conn.Write(s.text[:min(len(s.text), datagramBytes)]); err != nil {
			return err
		}
		s.sent.took(e)
	}
	s.sent.done()
	return nil
}

// frame adds a message with its length in front.
func (s *syslog) frame(to []byte, e entry) []byte {
	start := len(to)
	to = s.message(to, e)
	length := strconv.Itoa(len(to)-start) + " "
	to = append(to, length...)
	copy(to[start+len(length):], to[start:])
	copy(to[start:], length)
	return to
}

// message adds a message: PRI, version, time, host, program, process, the kind of the record
// as MSGID, no structured data, and the line.
func (s *syslog) message(to []byte, e entry) []byte {
	to = strconv.AppendInt(append(to, '<'), int64(8*s.facility+severities[levelOf(e.record)]), 10)
	to = e.record.Time.UTC().AppendFormat(append(to, ">1 "...), syslogTime)
	to = append(append(append(to, s.origin...), e.record.Kind...), " - "...)
	return append(to, e.line[:len(e.line)-1]...)
}

func (s *syslog) settle() error { return nil }

func (s *syslog) close() error {
	s.disconnect()
	return nil
}

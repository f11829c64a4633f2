package tlsfiles

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// Live has the certificates of a listener while it serves. It may be used concurrently.
type Live struct {
	files  Server
	now    atomic.Pointer[material]
	orders *orders // nil for certificates from files alone

	mu     sync.Mutex // guards the fields below
	issued []byte     // the certificate that was ordered, and its key; nil for none
	used   []strictyaml.Seen
	last   []strictyaml.Seen // at the last look
	status Status
}

// Status says what a listener uses, and how often it was renewed.
type Status struct {
	// Ends are those of the certificates in use. Each has the reason why a newer file is not used.
	Ends []End
	// Renewed and Refused count changed files and ordered certificates that were taken, and those that were not.
	Renewed, Refused int
}

// Open reads the files for a listener. With are the means for those by ACME.
func (s Server) Open(with Orders) (*Live, error) {
	m, seen, err := s.read(nil)
	if err != nil {
		return nil, err
	}
	l := &Live{files: s, used: seen, last: seen, status: Status{Ends: m.ends}}
	if s.ACME != nil {
		l.orders = &orders{ACME: *s.ACME, Orders: with}
	}
	l.now.Store(&m)
	return l, nil
}

// Orders says how the certificate is ordered, with Renew; nil for files.
func (l *Live) Orders() *ACME { return l.files.ACME }

// Proofs answers the authority at plain HTTP.
func (l *Live) Proofs() http.Handler { return l.orders }

// Config returns the configuration for the server of the listener. Each handshake uses the
// certificates of its moment.
func (l *Live) Config() *tls.Config {
	c := l.now.Load().config.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if l.orders != nil && slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
			return l.orders.handshake(hello)
		}
		return l.now.Load().config, nil
	}
	return c
}

// Status returns the present status.
func (l *Live) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Ends = slices.Clone(s.Ends)
	return s
}

// Look reads changed files again, and reports whether they were taken. If they cannot be used, those
// before stay in use; only the first look at them returns the error. Files that differ from those of
// the last look may be half written, and wait for the next one, unless now is set.
func (l *Live) Look(now bool) (renewed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, seen, err := l.files.read(l.issued)
	settled := now || slices.Equal(seen, l.last)
	l.last = seen
	if !settled || slices.Equal(seen, l.used) {
		return false, nil
	}
	l.used = seen
	if before := l.now.Load(); err == nil && m.leaf().NotAfter.Before(time.Now()) && !m.same(*before) {
		err = fmt.Errorf("cert_file: its certificate has ended at %s", m.leaf().NotAfter.UTC().Format(time.DateTime))
	}
	return err == nil, l.use(m, err)
}

// use takes what was read, or notes why it cannot be used. l.mu is held.
func (l *Live) use(m material, err error) error {
	if err != nil {
		l.status.Refused++
		l.status.Ends = slices.Clone(l.status.Ends)
		l.status.Ends[0].Problem = err.Error()
		return err
	}
	l.now.Store(&m)
	l.status.Renewed++
	l.status.Ends = m.ends
	return nil
}

// Renew looks after a certificate that is ordered, for one goroutine. It reports whether there is a new one, and
// the time until it has to be called again. Errors are those of the order; what was in use stays in use.
func (l *Live) Renew(ctx context.Context) (renewed bool, wait time.Duration, err error) {
	text, wait, err := l.orders.next(ctx, l.now.Load().leaf())
	if text == nil && err == nil || ctx.Err() != nil {
		return false, wait, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == nil {
		return false, wait, l.use(material{}, err)
	}
	m, seen, unread := l.files.read(text)
	if unread == nil {
		l.issued, l.used, l.last = text, seen, seen
	}
	return unread == nil, wait, errors.Join(err, l.use(m, unread))
}

package tlsfiles

import (
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
)

// Live has the certificates of a listener while it serves. It may be used concurrently.
type Live struct {
	files Server
	now   atomic.Pointer[material]

	mu     sync.Mutex // guards the fields below
	used   []strictyaml.Seen
	last   []strictyaml.Seen // at the last look
	status Status
}

// Status says what a listener uses, and how often it was renewed.
type Status struct {
	// Ends are those of the certificates in use. Each has the reason why a newer file is not used.
	Ends []End
	// Renewed and Refused count changed files that were taken, and that were not.
	Renewed, Refused int
}

// Open reads the files for a listener.
func (s Server) Open() (*Live, error) {
	m, seen, err := s.read()
	if err != nil {
		return nil, err
	}
	l := &Live{files: s, used: seen, last: seen, status: Status{Ends: m.ends}}
	l.now.Store(&m)
	return l, nil
}

// Config returns the configuration for the server of the listener. Each handshake uses the
// certificates of its moment.
func (l *Live) Config() *tls.Config {
	c := l.now.Load().config.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.now.Load().config, nil }
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
	m, seen, err := l.files.read()
	settled := now || slices.Equal(seen, l.last)
	l.last = seen
	if !settled || slices.Equal(seen, l.used) {
		return false, nil
	}
	l.used = seen
	if before := l.now.Load(); err == nil && m.leaf().NotAfter.Before(time.Now()) && !m.same(*before) {
		err = fmt.Errorf("cert_file: its certificate has ended at %s", m.leaf().NotAfter.UTC().Format(time.DateTime))
	}
	if err != nil {
		l.status.Refused++
		l.status.Ends = slices.Clone(l.status.Ends)
		l.status.Ends[0].Problem = err.Error()
		return false, err
	}
	l.now.Store(&m)
	l.status.Renewed++
	l.status.Ends = m.ends
	return true, nil
}

package doorway

import (
	"net/http"
	"sync/atomic"
	"time"
)

// multiplexing bounds the requests on one connection, and what the server keeps of their bodies until a
// handler reads them.
func multiplexing() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams:          100, // what RFC 9113 §6.5.2 has servers allow at least
		MaxReceiveBufferPerConnection: 128 << 10,
		MaxReceiveBufferPerStream:     128 << 10,
		SendPingTimeout:               30 * time.Second, // so that a client that has vanished is noticed
		WriteByteTimeout:              writeTime,
	}
}

// writeTime limits the time of a client to take what is written to a connection with HTTP/2.
const writeTime = time.Minute

// Handler returns a handler for the requests of a Listener. It notes whole requests, and bounds those
// that run at a time on connections that carry several: as many as connections, of one address and in
// total.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := r.Context().Value(visitorKey{}).(*visitor)
		if !ok || r.ProtoMajor == 1 {
			next.ServeHTTP(w, Watch(r))
			return
		}
		if !v.beginRequest() {
			v.door.metrics.overloaded.Inc()
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		defer v.endRequest()
		m := &multiplexed{ResponseWriter: w, rc: http.NewResponseController(w)}
		_ = m.SetWriteDeadline(time.Time{})
		next.ServeHTTP(m, Watch(r))
	})
}

// beginRequest finds a place for a request.
func (v *visitor) beginRequest() bool {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requests >= d.most || !v.proxy && d.requestsOf[v.from] >= d.mostOf {
		return false
	}
	d.requests++
	d.requestsOf[v.from]++
	return true
}

func (v *visitor) endRequest() {
	d := v.door
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests--
	if d.requestsOf[v.from]--; d.requestsOf[v.from] == 0 {
		delete(d.requestsOf, v.from)
	}
}

// multiplexed is the ResponseWriter of a request over HTTP/2. With net/http, a deadline there ends
// the answer when it passes, even while nothing is written. So it holds until the next flush only.
type multiplexed struct {
	http.ResponseWriter
	rc      *http.ResponseController
	limited atomic.Bool // a deadline is set
}

// SetWriteDeadline is for http.ResponseController.
func (m *multiplexed) SetWriteDeadline(at time.Time) error {
	m.limited.Store(!at.IsZero())
	return m.rc.SetWriteDeadline(at)
}

// Write limits the time of the write, unless the handler has.
func (m *multiplexed) Write(p []byte) (int, error) {
	m.limit()
	return m.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (m *multiplexed) FlushError() error {
	m.limit()
	err := m.rc.Flush()
	_ = m.SetWriteDeadline(time.Time{})
	return err
}

func (m *multiplexed) limit() {
	if !m.limited.Load() {
		_ = m.SetWriteDeadline(time.Now().Add(writeTime))
	}
}

// Unwrap is for http.ResponseController.
func (m *multiplexed) Unwrap() http.ResponseWriter { return m.ResponseWriter }

package cluster

import (
	"sync"
	"time"
)

// watch is the watch over one replica.
type watch struct {
	gone  chan struct{} // closed when it has gone
	since time.Duration // when it began
	by    int           // how many callers watch it
}

// watch tells when a replica has gone.
func (m *members) watch(replica string) (gone <-chan struct{}, stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.peers[replica]; p != nil && p.refused {
		return p.ctx.Done(), func() {}
	}
	w := m.watched[replica]
	if w == nil {
		if len(m.watched) >= maxReplicas { // clients may make up names
			return nil, func() {}
		}
		w = &watch{gone: make(chan struct{}), since: m.now()}
		m.watched[replica] = w
		select {
		case m.kick <- struct{}{}:
		default:
		}
	}
	w.by++
	return w.gone, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if w.by--; w.by == 0 && m.watched[replica] == w {
			delete(m.watched, replica)
		}
	})
}

// notify tells those who watch a replica that had no lease at a look. It is called with mu
// held, when the absence of a lease means something.
func (m *members) notify(asked time.Duration) {
	for name, w := range m.watched {
		if !m.alive[name] && asked > w.since {
			m.close(name)
		}
	}
}

// close tells those who watch a replica that it has gone. It is called with mu held.
func (m *members) close(name string) {
	if w := m.watched[name]; w != nil {
		close(w.gone)
		delete(m.watched, name)
		m.count.replicasGone.Inc()
	}
}

package cluster

import (
	"sync"
	"time"
)

// watch is a watch on one replica.
type watch struct {
	gone  chan struct{} // closed when the replica has gone
	since time.Duration // when the watch began
	by    int           // the number of callers
}

// watch is Cluster.Watch.
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

// notify tells the watchers of a replica that had no lease at a renewal. It is called with mu
// held, and only when a missing lease means that the replica has gone.
func (m *members) notify(asked time.Duration) {
	for name, w := range m.watched {
		if !m.alive[name] && asked > w.since {
			m.close(name)
		}
	}
}

// close tells the watchers of a replica that it has gone. The caller holds mu.
func (m *members) close(name string) {
	if w := m.watched[name]; w != nil {
		close(w.gone)
		delete(m.watched, name)
		m.count.replicasGone.Inc()
	}
}

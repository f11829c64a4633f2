package cluster

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
)

const (
	// askedPath is the path for questions on behalf of operators and users.
	askedPath = "/asked"
	// maxAnswer bounds one answer, in bytes.
	maxAnswer = 32 << 20
)

// Answer is another replica's answer to Ask.
type Answer struct {
	Replica string
	Status  int // of HTTP
	Body    []byte
	Err     error // why there is no answer; nil for one
}

// Ask sends a request without a body to all other replicas (Deps.Asked). It returns their answers
// in the order of their names. A replica that hangs costs times.patience.
func (c *Cluster) Ask(ctx context.Context, method, path string) []Answer {
	if c.members == nil {
		return nil
	}
	var mu sync.Mutex
	var all []Answer
	c.members.eachPeer(func(p *peer) {
		answer := p.askFor(ctx, method, path)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, answer)
	})
	slices.SortFunc(all, func(a, b Answer) int { return strings.Compare(a.Replica, b.Replica) })
	return all
}

// AskOne is Ask for one replica.
func (c *Cluster) AskOne(ctx context.Context, replica, method, path string) Answer {
	if c.members == nil {
		return Answer{Replica: replica, Err: errEnded}
	}
	ctx, cancel := context.WithTimeout(ctx, c.members.times.greet)
	defer cancel()
	p, _ := c.members.whereabouts(ctx, replica, c.members.now()) // it may have just started
	if p == nil {
		return Answer{Replica: replica, Err: errEnded}
	}
	return p.askFor(ctx, method, path)
}

// askFor makes one request of Ask.
func (p *peer) askFor(ctx context.Context, method, path string) Answer {
	status, body, err := p.get(ctx, p.times.patience, method, askedPath+path, maxAnswer)
	return Answer{Replica: p.name, Status: status, Body: body, Err: err}
}

// answer serves a request of Ask. Only other replicas reach the link (see verify).
func (l *link) answer(w http.ResponseWriter, r *http.Request) {
	if l.asked == nil || !l.enter() {
		http.Error(w, "this replica does not answer", http.StatusServiceUnavailable)
		return
	}
	defer l.running.Done()
	http.StripPrefix(askedPath, l.asked).ServeHTTP(w, r)
}

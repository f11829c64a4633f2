package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

const (
	// askedPath is where replicas ask each other on behalf of operators and users.
	askedPath = "/asked"
	// maxAnswer bounds one answer, in bytes.
	maxAnswer = 32 << 20
)

// Answer is what another replica has answered to Ask.
type Answer struct {
	Replica string
	Status  int // of HTTP
	Body    []byte
	Err     error // why there is no answer; nil for one
}

// Ask sends a request without a body to all other replicas, whose Deps.Asked serve it, and
// returns their answers in the order of their names. A replica that hangs costs times.patience.
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
	p := c.members.peer(replica)
	if p == nil { // it may have just started
		looking, cancel := context.WithTimeout(ctx, c.members.times.greet)
		defer cancel()
		c.members.lookAgain(looking)
		if p = c.members.peer(replica); p == nil {
			return Answer{Replica: replica, Err: errEnded}
		}
	}
	return p.askFor(ctx, method, path)
}

// askFor makes one request of Ask.
func (p *peer) askFor(ctx context.Context, method, path string) (a Answer) {
	a.Replica = p.name
	ctx, cancel := context.WithTimeout(ctx, p.times.patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+p.name+askedPath+path, nil)
	if err != nil {
		a.Err = fmt.Errorf("cluster: %w", err)
		return a
	}
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		a.Err = fmt.Errorf("cluster: %w", err)
		return a
	}
	defer resp.Body.Close()
	a.Status = resp.StatusCode
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		a.Err = fmt.Errorf("cluster: %w", err)
	} else if len(a.Body) > maxAnswer {
		a.Err = fmt.Errorf("cluster: the answer is larger than %d bytes", maxAnswer)
	}
	return a
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

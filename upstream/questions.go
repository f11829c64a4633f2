package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// A session that replicas have in common outlives each of them, and so does a server's wait
// for an answer. So what a server asks is known to all of them until it is answered: when a
// replica has gone, another one that has the session answers in its place; see orphans.go.

// Questions is the part of Shared about them. Each method is one step for all replicas.
type Questions interface {
	// Ask keeps a question of the server that waits here, under a key that is another one for
	// each of a place.
	Ask(ctx context.Context, at Place, key string, question []byte) error
	// Answered forgets it, and reports whether this replica is to answer it: not where
	// another one has inherited it, which took this one to have gone.
	Answered(ctx context.Context, at Place, key string) (ours bool, err error)
	// Asked returns the questions that wait at other replicas.
	Asked(ctx context.Context, at Place) ([]Asked, error)
	// Inherit makes a question of a replica that has gone this replica's, and reports whether
	// it is: of several that try, one does. Who has answered it Settles it.
	Inherit(ctx context.Context, at Place, q Asked) (ours bool, err error)
	Settle(ctx context.Context, at Place, key string) error // key is Asked.Key
}

// Asked is a question of a server that waits at another replica.
type Asked struct {
	Key     string
	Replica string
	// Question is what was kept of it.
	Question []byte
}

// keptQuestion is what is kept of a question.
type keptQuestion struct {
	Tag  string `json:"tag"`            // of the session
	ID   string `json:"id"`             // of the question, as the server wrote it
	Call int64  `json:"call,omitempty"` // the request in whose course it is asked; 0 for none
	Task string `json:"task,omitempty"` // that was made for that request and for nobody else
}

// errInherited: another replica took this one to have gone, and has ended the call.
var errInherited = errors.New("the call was ended by another replica")

// record is a question as the other replicas know it; nil where there are none.
type record struct {
	s    *session
	key  string
	call bool          // it is asked in the course of a call
	said chan struct{} // closed when kept is set
	kept bool
}

// record has the other replicas know of a question that came in the course of a call, nil
// for none, which it does not hold up.
func (s *session) record(id mcp.Raw, x *exchange) *record {
	if s.bound == nil {
		return nil
	}
	q := keptQuestion{Tag: s.bound.kept.Tag, ID: string(id)}
	if x != nil {
		q.Call = x.id
		if x.ours {
			q.Task = x.task
		}
	}
	// For roots that belong to no call several replicas may wait at a time.
	r := &record{s: s, key: s.u.shared.Self() + q.Tag + q.ID, call: x != nil, said: make(chan struct{})}
	if r.call {
		s.u.records.add(1)
	}
	s.u.spawn(func() {
		defer close(r.said)
		if text, err := json.Marshal(q); err == nil {
			r.kept = s.u.shared.Ask(s.base, s.bound.at, r.key, text) == nil
		}
		if r.kept {
			s.tellOthers(s.base, aboutAsked, []byte(s.u.shared.Self()))
		}
	})
	return r
}

// answer says that a question is about to be answered, or need not be any more, and reports
// whether it is still this replica's to answer. Where that cannot be told it is.
func (r *record) answer() (ours bool) {
	if r == nil {
		return true
	}
	if r.call {
		defer r.s.u.records.add(-1)
	}
	<-r.said
	if !r.kept {
		return true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.s.base), goodbye) // after the session's own end
	defer cancel()
	ours, err := r.s.u.shared.Answered(ctx, r.s.bound.at, r.key)
	return ours || err != nil
}

// records count the questions of calls that other replicas know of.
type records struct {
	mu   sync.Mutex // guards the fields below
	open int
	none chan struct{} // closed when there are none; nil when nobody waits for that
}

func (r *records) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open += n; r.open == 0 && r.none != nil {
		close(r.none)
		r.none = nil
	}
}

// wait waits until there are none.
func (r *records) wait(ctx context.Context) {
	r.mu.Lock()
	if r.open == 0 {
		r.mu.Unlock()
		return
	}
	if r.none == nil {
		r.none = make(chan struct{})
	}
	none := r.none
	r.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// LetGo ends the calls that wait for answers of their users, for which nobody can come back
// any more, and has their servers told. It is called before Shared ends, so that no other
// replica answers what was answered, and before Close.
func (u *Upstream) LetGo(ctx context.Context) {
	u.parks.Close()
	u.holds.Close()
	ctx, cancel := context.WithTimeout(ctx, goodbye)
	defer cancel()
	u.records.wait(ctx)
}

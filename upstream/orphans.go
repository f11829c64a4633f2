package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/upstream/admit"
	"github.com/gatehouse-mcp/gatehouse/upstream/transport"
)

const (
	// maxVigils bounds the replicas that are watched.
	maxVigils = 100
	// orphanTries is how often it is tried to answer a question.
	orphanTries = 5
)

// vigils are the replicas at which servers wait for answers, as far as this one knows.
type vigils struct {
	mu       sync.Mutex // guards replicas
	replicas map[string]bool
}

// watchOver has the questions of a replica answered when it has gone.
func (u *Upstream) watchOver(replica string) {
	v := &u.vigils
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.replicas[replica] || len(v.replicas) >= maxVigils || replica == u.shared.Self() {
		return
	}
	if v.replicas == nil {
		v.replicas = make(map[string]bool)
	}
	v.replicas[replica] = true
	gone, stop := u.shared.Watch(replica)
	u.spawn(func() {
		defer stop()
		select {
		case <-gone:
		case <-u.base.Done():
			return
		}
		v.mu.Lock()
		delete(v.replicas, replica)
		v.mu.Unlock()
		u.inherit(u.pool.asked(), replica)
	})
}

// asked returns the sessions in which other replicas may have questions.
func (p *pool) asked() (all []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.places {
		if s := sl.current; s != nil && s.bound != nil && s.bound.asked {
			all = append(all, s)
		}
	}
	return all
}

// askable returns those in which a server can ask at all.
func (p *pool) askable() (all []*session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sl := range p.places {
		if s := sl.current; s != nil && s.bound != nil && s.declared.any() {
			all = append(all, s)
		}
	}
	return all
}

// asksAt notes that another replica has a question of the session.
func (s *session) asksAt(replica string) {
	s.u.pool.setAsked(s, true)
	s.u.watchOver(replica)
}

func (p *pool) setAsked(s *session, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.bound.asked = is
}

// inherit answers the questions of sessions that waited at a replica which has gone, "" for
// none, and watches the others that have some.
func (u *Upstream) inherit(sessions []*session, gone string) {
	for _, s := range sessions {
		for !s.over() && s.inherit(gone) != nil { // nobody knows at the moment
			if wait(s.base, tendEvery) != nil {
				break
			}
		}
	}
}

func (s *session) inherit(gone string) error {
	s.u.pool.setAsked(s, false) // what is asked from now on is told
	all, err := s.u.shared.Asked(s.base, s.bound.at)
	if err != nil {
		s.u.pool.setAsked(s, true)
		return err
	}
	calls := make(map[int64]bool) // that were cancelled
	for _, q := range all {
		if q.Replica != gone {
			s.asksAt(q.Replica)
			continue
		}
		ours, err := s.u.shared.Inherit(s.base, s.bound.at, q)
		if err != nil {
			s.u.pool.setAsked(s, true)
			return err
		}
		var kept keptQuestion
		if !ours || json.Unmarshal(q.Question, &kept) != nil {
			continue
		}
		switch {
		case kept.Tag != s.bound.kept.Tag: // its server has forgotten it with the session
		case kept.Call == 0 && !s.mine(mcp.Raw(kept.ID)): // another replica has it, too
		default:
			s.answerOrphan(kept, calls)
		}
		if err := s.u.shared.Settle(s.base, s.bound.at, q.Key); err != nil {
			s.u.log.Debug("a question that was answered is still kept", "error", err)
		}
	}
	return nil
}

// answerOrphan cancels the call in whose course a question was asked whose replica has gone,
// with the client's connection to it, and answers the question. The order is that of giveUp.
func (s *session) answerOrphan(q keptQuestion, calls map[int64]bool) {
	s.u.log.Info("answering for a replica that has gone", "call", q.Call != 0)
	if q.Call != 0 && !calls[q.Call] {
		calls[q.Call] = true
		s.postSurely(transport.Cancelled(q.Call, "the client has gone"))
		if q.Task != "" {
			s.cancelTask(q.Task)
		}
	}
	s.postSurely(wire.AppendError(nil, mcp.Raw(q.ID), errClientGone))
}

var errClientGone = mcp.Errorf(mcp.CodeInternal, "the client has gone")

// postSurely is post for what nobody says again.
func (s *session) postSurely(body []byte) {
	pauses := admit.NewBackoff()
	for range orphanTries {
		ctx, cancel := context.WithTimeout(s.base, goodbye)
		err := s.conn.Post(ctx, body)
		cancel()
		if err == nil || errors.Is(err, transport.ErrSessionGone) || s.over() {
			return
		}
		s.u.log.Debug("message not sent", "error", err)
		if wait(s.base, pauses.NextBackOff()) != nil {
			return
		}
	}
}

package session_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// TestClusterShares: the nodes of a Cluster share the sessions.
func TestClusterShares(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	s := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	for i := range 30 {
		if _, err := s.Create(t.Context(), session.Record{User: fmt.Sprint("user ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range cluster.Nodes {
		client := node.Client()
		defer client.Close()
		if n, err := client.DBSize(t.Context()).Result(); err != nil || n == 0 {
			t.Errorf("node %d holds %d keys, %v", i, n, err)
		}
	}
}

// A user's keys move to another node during use, and then a node fails. A session that
// exists is never reported as missing.
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	a := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	r, quiet := a.create(t), a.create(t)
	for range 10 {
		if _, err := a.Log().Append(t.Context(), r.Key(), "s", []byte("event")); err != nil {
			t.Fatal(err)
		}
	}
	m := cluster.Migrate(t, "{alice}")
	a.want(t, "at the replica that knows it, under way", r, nil)
	if _, err := b.Get(t.Context(), r.User, r.ID); err != nil && !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("at another one, under way: %v", err)
	}
	m.Finish(t)
	for _, s := range []*replica{a, b} {
		s.want(t, "after the move", r, nil)
		if events, _, _, err := s.Log().Read(t.Context(), r.Key(), "s", 0); err != nil || len(events) != 10 {
			t.Errorf("%d events after the move, %v", len(events), err)
		}
	}
	a.create(t)
	if err := b.Delete(t.Context(), quiet.User, quiet.ID); err != nil {
		t.Errorf("ending one after the move: %v", err)
	}

	m.To().Kill()
	a.want(t, "a known one without its node", r, nil)
	c := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	c.want(t, "an unknown one without its node", r, session.ErrUnavailable)
}

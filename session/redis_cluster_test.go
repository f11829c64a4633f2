package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// Over a Cluster replicas hear each other too, and its nodes share the keys.
func TestClusterReplicas(t *testing.T) {
	cluster := redistest.StartCluster(t)
	mail := make(chan string, 1)
	a := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	b := newReplica(t, cluster.URL(), session.Config{}, session.Deps{OnMail: func(m []byte) { mail <- string(m) }})
	for i := range 30 {
		user := fmt.Sprint("user ", i)
		r, err := a.Create(t.Context(), session.Record{User: user, Initialized: true})
		if err != nil {
			t.Fatal(err)
		}
		b.want(t, "at the other replica", r, nil)
		if _, err := b.Update(t.Context(), r.User, r.ID, func(r *session.Record) { r.LogLevel = "debug" }); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a hears of the change", func() bool {
			got, err := a.Get(t.Context(), r.User, r.ID)
			return err == nil && got.LogLevel == "debug"
		})
		seq, err := a.Log().Append(t.Context(), r.Key(), "s", []byte("event"))
		if err != nil {
			t.Fatal(err)
		}
		events, _, more, err := b.Log().Read(t.Context(), r.Key(), "s", 0)
		if err != nil || len(events) != 1 || events[0].Seq != seq {
			t.Fatalf("events: %v, %v", events, err)
		}
		if err := a.Log().End(t.Context(), r.Key(), "s"); err != nil {
			t.Fatal(err)
		}
		<-more
		if i%2 == 0 {
			continue
		}
		if err := b.Delete(t.Context(), r.User, r.ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "P9/56 a hears of the end", func() bool {
			_, err := a.Get(t.Context(), r.User, r.ID)
			return errors.Is(err, session.ErrNotFound)
		})
	}
	for _, letter := range []string{"short", strings.Repeat("long", 1<<20)} {
		if err := a.Send(t.Context(), b.Self(), []byte(letter)); err != nil {
			t.Fatal(err)
		}
		if got := <-mail; got != letter {
			t.Errorf("a letter of %d bytes came as %d", len(letter), len(got))
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

// H/182: a user's keys move to another node under way, and then a node fails. A session
// that is there is never said to be missing.
func TestClusterMoves(t *testing.T) {
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
	a.age()
	a.want(t, "H/182 at the replica that knows it, under way", r, nil)
	if _, err := b.Get(t.Context(), r.User, r.ID); err != nil && !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("H/182 at another one, under way: %v", err)
	}
	m.Finish(t)
	for _, s := range []*replica{a, b} {
		s.age()
		s.want(t, "H/182 after the move", r, nil)
		if events, _, _, err := s.Log().Read(t.Context(), r.Key(), "s", 0); err != nil || len(events) != 10 {
			t.Errorf("H/182 %d events after the move, %v", len(events), err)
		}
	}
	a.create(t)
	if err := b.Delete(t.Context(), quiet.User, quiet.ID); err != nil {
		t.Errorf("H/182 ending one after the move: %v", err)
	}

	m.To().Kill()
	a.age()
	a.want(t, "H/178 a known one without its node", r, nil)
	c := newReplica(t, cluster.URL(), session.Config{}, session.Deps{})
	c.want(t, "H/178 an unknown one without its node", r, session.ErrUnavailable)
}

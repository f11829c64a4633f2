package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/home"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// counted returns the counters of a registry, by name and label values.
func counted(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			all[strings.TrimPrefix(name, "gatehouse_")] = m.GetCounter().GetValue()
		}
	}
	return all
}

// TestCausesOfEnds: the causes of ends are counted. A session that moves to another replica
// does not end.
func TestCausesOfEnds(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	reg := prometheus.NewRegistry()
	s := newReplica(t, server.URL(), session.Config{MaxPerUser: 3}, session.Deps{
		Metrics: session.NewMetrics(reg, "r1"), Homes: home.Config{Metrics: home.NewMetrics(reg)},
	})
	next := newReplica(t, server.URL(), session.Config{}, session.Deps{})
	deleted, away, gone := s.create(t), s.create(t), s.create(t)
	if err := s.Delete(t.Context(), deleted.User, deleted.ID); err != nil {
		t.Fatal(err)
	}
	next.use(t, away.Key())
	never := session.Record{User: "alice", ID: strings.Repeat("A", 26)}
	s.want(t, "one that was never there", never, session.ErrNotFound)
	if err := client.Del(t.Context(), "gatehouse:s:{alice}:"+gone.ID).Err(); err != nil {
		t.Fatal(err)
	}
	s.skew.Add(int64(time.Second))
	s.want(t, "not known to have gone yet", gone, nil)
	s.want(t, "not known to be away yet", away, nil)
	s.Sweep()
	for range 4 { // the fourth ends the first
		s.skew.Add(int64(5 * time.Minute))
		server.Advance(t, 5*time.Minute)
		s.create(t)
	}
	s.skew.Add(int64(time.Hour))
	server.Advance(t, time.Hour)
	s.Sweep()
	s.Homes().Close(t.Context()) // some ends have goroutines of their own
	got := counted(t, reg)
	for name, want := range map[string]float64{"sessions_opened_total r1": 7, "sessions_ended_total deleted": 1,
		"sessions_ended_total gone":    1,
		"sessions_ended_total evicted": 1, "sessions_ended_total idle": 3, "homes_lost_total": 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

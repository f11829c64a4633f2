package session_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

// counted returns the counters of a registry by name and the values of their labels.
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

// TestNumbersOfReplicas: what replicas lose of each other is counted.
func TestNumbersOfReplicas(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	defer client.Close()
	reg := prometheus.NewRegistry()
	a := newReplica(t, server.URL(), session.Config{}, session.Deps{Metrics: session.NewMetrics(reg)})
	want := func(what, name string, want float64) {
		t.Helper()
		if got := counted(t, reg)[name]; got != want {
			t.Errorf("%s: %s is %v, want %v", what, name, got, want)
		}
	}
	want("at first", "lease_renewals_total late", 0)
	a.Beat()
	before := counted(t, reg)
	if before["lease_renewals_total ok"] == 0 {
		t.Error("no renewal is counted")
	}
	if n, err := client.Del(t.Context(), "gatehouse:r:{replicas}:"+a.Self()).Result(); n != 1 || err != nil {
		t.Fatalf("%d leases, %v", n, err)
	}
	if a.Beat(); counted(t, reg)["lease_renewals_total late"] == before["lease_renewals_total late"] {
		t.Error("H/192 that Redis had lost the lease is not counted")
	}

	gone, stop := a.Watch("crashed")
	defer stop()
	a.skew.Add(int64(a.Beat()))
	if a.Beat(); !isClosed(gone) {
		t.Error("nobody notices that a replica has gone")
	}
	want("after a replica has gone", "replicas_gone_total", 1)

	if err := client.Publish(t.Context(), "gatehouse:to:"+a.Self(), "mother forged").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a letter that cannot be opened is counted", func() bool { return counted(t, reg)["letters_total unopened"] == 1 })
	a.Collect("x:" + strings.Repeat("A", 26))
	eventually(t, "a large letter that is not there is counted", func() bool { return counted(t, reg)["letters_total uncollected"] == 1 })

	before = counted(t, reg)
	server.Kill()
	if a.Beat(); counted(t, reg)["lease_renewals_total failed"] == before["lease_renewals_total failed"] {
		t.Error("H/177 without Redis: that the lease is not renewed is not counted")
	}
}

package front

import (
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// counter is a prometheus.Counter.
type counter interface{ Write(*dto.Metric) error }

func countOf(t *testing.T, c counter) float64 {
	t.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue()
}

func wantCount(t *testing.T, what string, c counter, want float64) {
	t.Helper()
	if got := countOf(t, c); got != want {
		t.Errorf("%s: %v are counted, want %v", what, got, want)
	}
}

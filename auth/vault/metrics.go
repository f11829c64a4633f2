package vault

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics count what becomes of tokens.
type Metrics struct {
	refreshed, revoked, failed prometheus.Counter
}

// NewMetrics makes the metrics and, unless reg is nil, registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	refreshes := promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_account_refreshes_total",
		Help: "Tokens of users' own accounts at servers that this replica asked to refresh: ok, revoked if the user has to sign in again, or failed if it is tried again.",
	}, []string{"outcome"})
	return &Metrics{
		refreshed: refreshes.WithLabelValues("ok"), revoked: refreshes.WithLabelValues("revoked"),
		failed: refreshes.WithLabelValues("failed"),
	}
}

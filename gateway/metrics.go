package gateway

import (
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/grants"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/results"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/redisdb"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// scrapeTime bounds one scrape. maxScrapes bounds the scrapes that are served at a time.
const (
	scrapeTime = 10 * time.Second
	maxScrapes = 4
)

// meters holds the metrics that all configurations of one gateway share, and those of optional parts. Any other
// part gets its own where it is made, in the same registry.
type meters struct {
	Registry   *prometheus.Registry
	Calls      *observe.Metrics
	Tokens     *auth.Metrics
	Grants     *grants.Metrics
	Policy     *policy.Metrics
	Disclosure *disclosure.Metrics
	Results    *results.Metrics
	Hooks      *hooks.Metrics
	Upstreams  *upstream.Metrics
	Redis      *redisdb.Metrics // nil without Redis
	Log        *observe.LogMetrics

	reloaded, notReloaded prometheus.Counter
	handshakes            prometheus.Counter // that failed
}

// newMeters makes the meters. version is that of the build; redis says that there is a Redis.
func newMeters(version string, redis bool) *meters {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	with := promauto.With(reg)
	with.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_build_info",
		Help: "Always 1: which build this is.",
	}, []string{"version", "revision", "go_version"}).WithLabelValues(version, buildRevision(), runtime.Version()).Set(1)
	reloads := with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_config_reloads_total",
		Help: "Times that the configuration file was read again: ok, or refused if it was not good, so that nothing was changed.",
	}, []string{"result"})
	m := &meters{
		Registry:   reg,
		Calls:      observe.NewMetrics(reg),
		Tokens:     auth.NewMetrics(reg),
		Grants:     grants.NewMetrics(reg),
		Policy:     policy.NewMetrics(reg),
		Disclosure: disclosure.NewMetrics(reg),
		Results:    results.NewMetrics(reg),
		Hooks:      hooks.NewMetrics(reg),
		Upstreams:  upstream.NewMetrics(reg),
		Log:        observe.NewLogMetrics(reg),

		reloaded:    reloads.WithLabelValues("ok"),
		notReloaded: reloads.WithLabelValues("refused"),
		handshakes: with.NewCounter(prometheus.CounterOpts{
			Name: "gatehouse_tls_handshake_failures_total",
			Help: "Handshakes at listeners with TLS that failed or did not end in time; the log says why at level debug.",
		}),
	}
	if redis {
		m.Redis = redisdb.NewMetrics(reg)
	}
	return m
}

// buildRevision returns the commit that the program was built from, "unknown" if the build did not
// record it.
func buildRevision() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// Reload counts a reload; err says why it was refused, nil if it was not.
func (m *meters) Reload(err error) {
	if err != nil {
		m.notReloaded.Inc()
		return
	}
	m.reloaded.Inc()
}

// Forget drops the series of an upstream that was removed.
func (m *meters) Forget(upstream string) {
	m.Calls.Forget(upstream)
	m.Upstreams.Forget(upstream)
	m.Results.Forget(upstream)
}

// sample takes one value of a metric. labels are alternating names and values.
type sample func(name, help string, value float64, labels ...string)

// onScrape is a prometheus.Collector of values that are read at each scrape.
type onScrape func(write sample)

// Describe sends nothing: which series there are depends on the configuration.
func (onScrape) Describe(chan<- *prometheus.Desc) {}

// Collect reads the values.
func (read onScrape) Collect(to chan<- prometheus.Metric) {
	read(func(name, help string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		names, values := make([]string, 0, 2), make([]string, 0, 2)
		for i := 0; i < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
	})
}

// Scrapes returns the handler for scrapes. Only OpenMetrics has exemplars, and only traces make
// any; other scrapers get the usual format.
func (m *meters) Scrapes(log *slog.Logger, exemplars func() bool) http.Handler {
	in := func(openMetrics bool) http.Handler {
		return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{
			EnableOpenMetrics:   openMetrics,
			ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			ErrorHandling:       promhttp.ContinueOnError,
			MaxRequestsInFlight: maxScrapes,
			Timeout:             scrapeTime,
		})
	}
	plain, open := in(false), in(true)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if exemplars() {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

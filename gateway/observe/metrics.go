package observe

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// methods are the methods that have their own label; every other one is "other", because
// clients may send any method name.
var methods = map[string]int{
	mcp.MethodDiscover: 1, mcp.MethodListen: 2,
	mcp.MethodToolsList: 3, mcp.MethodToolsCall: 4,
	mcp.MethodResourcesList: 5, mcp.MethodResourceTemplatesList: 6, mcp.MethodResourcesRead: 7, mcp.MethodDirectoryRead: 8,
	mcp.MethodPromptsList: 9, mcp.MethodPromptsGet: 10, mcp.MethodComplete: 11,
	mcp.MethodTasksGet: 12, mcp.MethodTasksUpdate: 13, mcp.MethodTasksCancel: 14, mcp.MethodTasksResult: 15,
	mcp.MethodTasksList:  16,
	mcp.MethodSkillsList: 17, mcp.MethodSkillsGet: 18, mcp.MethodInitialize: 19,
}

// methodCount is the number of labels, "other" included.
const methodCount = 20

// eras of clients: with sessions or without.
var eras = [...]string{"stateful", "stateless"}

// seconds are the bounds of the histograms: from the time that the gateway alone takes to
// the longest duration of a call by default.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 600}

// Metrics are the metrics of calls. Labels come from the configuration (upstream) and from
// the tables above, never from clients or servers. A series exists from its first call on;
// later calls find it without a lock.
type Metrics struct {
	running [len(eras)]prometheus.Gauge
	all     table
	views   *prometheus.CounterVec

	calls    *prometheus.CounterVec // of upstreams
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	sent     *prometheus.CounterVec
	received *prometheus.CounterVec
}

// NewMetrics makes the metrics, and registers them unless reg is nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	m := &Metrics{
		calls: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_upstream_calls_total",
			Help: "Calls that were handed to an upstream, by the era of the client and by how they ended there. Each round of a call that asks its user counts.",
		}, []string{"upstream", "method", "era", "outcome"}),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatehouse_upstream_call_duration_seconds", Buckets: seconds,
			Help: "How long calls took from the catalog to the upstream and back, in seconds, without the time that users take to answer.",
		}, []string{"upstream", "method", "era"}),
		sent: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_upstream_sent_bytes_total",
			Help: "Params of calls that were handed to an upstream, in bytes.",
		}, []string{"upstream"}),
		errors: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_upstream_errors_total",
			Help: "Calls that were handed to an upstream and ended with an error there, by the name of the failure; GH-UPSTREAM-ERROR is an error of the server's own.",
		}, []string{"upstream", failure.Key}),
		received: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_upstream_received_bytes_total",
			Help: "Results of calls that came from an upstream, in bytes.",
		}, []string{"upstream"}),
	}
	running := with.NewGaugeVec(prometheus.GaugeOpts{
		Name: "gatehouse_calls_in_flight",
		Help: "Calls of clients under way, by the era of the client, without subscriptions and without those that wait for an answer of their user.",
	}, []string{"era"})
	for i, era := range eras {
		m.running[i] = running.WithLabelValues(era)
	}
	m.views = with.NewCounterVec(prometheus.CounterOpts{
		Name: "gatehouse_view_calls_total",
		Help: "Calls of clients at the endpoints of views, by how they ended.",
	}, []string{"view", "outcome"})
	m.all = table{
		calls: with.NewCounterVec(prometheus.CounterOpts{
			Name: "gatehouse_calls_total",
			Help: "Calls of clients, by the era of the client and by how they ended.",
		}, []string{"method", "era", "outcome"}),
		duration: with.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatehouse_call_duration_seconds", Buckets: seconds,
			Help: "How long calls took within the gateway and at their upstream, in seconds, without the time that users take to answer.",
		}, []string{"method", "era"}),
	}
	for _, era := range eras { // present from the start, so that the first failure is a change
		for _, outcome := range outcomes {
			m.all.calls.WithLabelValues(mcp.MethodToolsCall, era, outcome)
		}
		m.all.duration.WithLabelValues(mcp.MethodToolsCall, era)
	}
	return m
}

// LogMetrics are the metrics of a log.
type LogMetrics struct{ dropped prometheus.Counter }

// NewLogMetrics makes the metrics, and registers them unless reg is nil.
func NewLogMetrics(reg prometheus.Registerer) *LogMetrics {
	return &LogMetrics{promauto.With(reg).NewCounter(prometheus.CounterOpts{
		Name: "gatehouse_log_lines_dropped_total",
		Help: "Lines of the log that were dropped because whatever reads it is too slow.",
	})}
}

// Upstream is an upstream as the catalog calls it.
type Upstream interface {
	mcp.Handler
	// Name is the configured name.
	Name() string
}

// Of returns the upstream with counts of clients' calls. The gateway's own requests, such as for
// lists, do not count.
func (m *Metrics) Of(u Upstream) Upstream {
	label := prometheus.Labels{"upstream": u.Name()}
	c := &counted{
		Upstream: u,
		table:    table{calls: m.calls.MustCurryWith(label), duration: m.duration.MustCurryWith(label)},
		errors:   m.errors.MustCurryWith(label),
		sent:     m.sent.With(label),
		received: m.received.With(label),
	}
	for _, era := range eras {
		c.calls.WithLabelValues(mcp.MethodToolsCall, era, outcomes[outcomeOK])
		c.duration.WithLabelValues(mcp.MethodToolsCall, era)
	}
	return c
}

// counted is an upstream that counts its calls.
type counted struct {
	Upstream
	table
	errors         *prometheus.CounterVec // by name
	sent, received prometheus.Counter
}

// Handle makes a call. Calls that policy has allowed have a Target.
func (u *counted) Handle(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	if c.Target.Upstream == "" {
		return u.Upstream.Handle(ctx, c)
	}
	start := time.Now()
	reply, err := u.Upstream.Handle(ctx, c)
	how := outcomeOf(ctx, c, reply, err)
	u.count(c, how, time.Since(start))
	if err != nil && how != outcomeCancelled {
		u.errors.WithLabelValues(mcp.FailureOf(err).String()).Inc()
	}
	u.sent.Add(float64(len(c.Params)))
	if reply != nil {
		u.received.Add(float64(len(reply.Result)))
	}
	return reply, err
}

// Forget drops the series of an upstream that no longer exists.
func (m *Metrics) Forget(upstream string) {
	label := prometheus.Labels{"upstream": upstream}
	for _, vec := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.calls, m.duration, m.errors, m.sent, m.received} {
		vec.DeletePartialMatch(label)
	}
}

// Running counts the rounds of calls that are under way.
func (m *Metrics) Running(next mcp.Handler) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		if c.Method == mcp.MethodListen || c.Revision == "" {
			return next.Handle(ctx, c)
		}
		running := m.running[eraOf(c)]
		running.Inc()
		defer running.Dec()
		return next.Handle(ctx, c)
	})
}

func (m *Metrics) count(c *mcp.Call, how outcome, took time.Duration) {
	m.all.count(c, how, took)
	if c.Caller.View != "" {
		m.views.WithLabelValues(c.Caller.View, outcomes[how]).Inc()
	}
}

// ForgetView drops the series of a view that no longer exists.
func (m *Metrics) ForgetView(view string) {
	m.views.DeletePartialMatch(prometheus.Labels{"view": view})
}

// table finds the series of a call by index.
type table struct {
	calls    *prometheus.CounterVec // by method, era and outcome
	duration prometheus.ObserverVec // by method and era
	entries  [methodCount][len(eras)]entryOf
}

// entryOf holds the series of one method and era.
type entryOf struct {
	outcomes [len(outcomes)]atomic.Pointer[prometheus.Counter]
	duration atomic.Pointer[prometheus.Observer]
}

func (t *table) count(c *mcp.Call, how outcome, took time.Duration) {
	method, era := methods[c.Method], eraOf(c)
	e := &t.entries[method][era]
	counter := e.outcomes[how].Load()
	if counter == nil {
		found := t.calls.WithLabelValues(methodName(c.Method, method), eras[era], outcomes[how])
		counter = &found
		e.outcomes[how].Store(counter)
	}
	(*counter).Inc()
	if c.Method == mcp.MethodListen { // it lasts as long as its client wants
		return
	}
	duration := e.duration.Load()
	if duration == nil {
		found := t.duration.WithLabelValues(methodName(c.Method, method), eras[era])
		duration = &found
		e.duration.Store(duration)
	}
	if with, ok := (*duration).(prometheus.ExemplarObserver); ok && c.Trace.Spanned() {
		with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": c.Trace.ID})
		return
	}
	(*duration).Observe(took.Seconds())
}

func methodName(name string, number int) string {
	if number == 0 {
		return "other"
	}
	return name
}

// eraOf returns the index in eras of the client that makes a call.
func eraOf(c *mcp.Call) int {
	if c.Ephemeral {
		return 1
	}
	return 0
}

package tracing

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
)

const (
	// queueSpans is how many spans may wait for the collector; further ones are dropped and
	// counted. A span takes about 2 KiB.
	queueSpans = 8192
	// batchSpans is how many spans one request has at most.
	batchSpans = 512
	// gather is how long spans may wait for others of their batch.
	gather = time.Second
	// sendTime bounds one batch, with everything that is tried again.
	sendTime = 15 * time.Second
	// sayEvery is the least time between two lines about a collector that fails.
	sayEvery = time.Minute
	// maxReason bounds how much of an error a line repeats, in bytes.
	maxReason = 300
)

// queue is a trace.SpanProcessor that sends spans from one goroutine, run. It never waits for
// the collector in a call.
type queue struct {
	to    trace.SpanExporter
	url   string // of the collector, which may hold a secret
	count counts
	log   *slog.Logger

	spans chan trace.ReadOnlySpan
	stop  chan struct{} // closed by end
	done  chan struct{} // closed when run has returned
	// sending ends what is being sent; giveUp ends it.
	sending context.Context
	giveUp  context.CancelFunc

	said time.Time // of run: when the last line was written
	lost int       // of run: spans since then
}

func newQueue(to trace.SpanExporter, url string, count counts, log *slog.Logger) *queue {
	q := &queue{to: to, url: url, count: count, log: log, spans: make(chan trace.ReadOnlySpan, queueSpans),
		stop: make(chan struct{}), done: make(chan struct{})}
	q.sending, q.giveUp = context.WithCancel(context.Background())
	return q
}

// OnStart does nothing.
func (q *queue) OnStart(context.Context, trace.ReadWriteSpan) {}

// OnEnd queues a span.
func (q *queue) OnEnd(s trace.ReadOnlySpan) {
	select {
	case <-q.stop: // of a call that a reload or a stop has outrun
		q.count.dropped.Inc()
		return
	default:
	}
	select {
	case q.spans <- s:
	default:
		q.count.dropped.Inc()
	}
}

// ForceFlush does nothing: run sends what waits.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown sends what waits, until ctx ends. What is left then is dropped. It is called once.
func (q *queue) Shutdown(ctx context.Context) error {
	close(q.stop)
	defer context.AfterFunc(ctx, q.giveUp)()
	<-q.done // soon after giveUp
	q.giveUp()
	return ctx.Err()
}

// run sends spans until Shutdown.
func (q *queue) run() {
	defer close(q.done)
	batch := make([]trace.ReadOnlySpan, 0, batchSpans)
	tick := time.NewTicker(gather)
	defer tick.Stop()
	for {
		select {
		case s := <-q.spans:
			if batch = append(batch, s); len(batch) < batchSpans {
				continue
			}
		case <-tick.C:
		case <-q.stop:
			q.rest(batch)
			return
		}
		q.send(batch)
		clear(batch)
		batch = batch[:0]
	}
}

// rest sends a batch, and everything that still waits.
func (q *queue) rest(batch []trace.ReadOnlySpan) {
	for {
		select {
		case s := <-q.spans:
			if batch = append(batch, s); len(batch) < batchSpans {
				continue
			}
			q.send(batch)
			batch = batch[:0]
		default:
			q.send(batch)
			return
		}
	}
}

func (q *queue) send(batch []trace.ReadOnlySpan) {
	if len(batch) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(q.sending, sendTime)
	defer cancel()
	err := q.to.ExportSpans(ctx, batch)
	if err == nil {
		q.count.sent.Add(float64(len(batch)))
		return
	}
	q.count.failures.Inc()
	q.count.dropped.Add(float64(len(batch)))
	q.lost += len(batch)
	if time.Since(q.said) < sayEvery {
		return
	}
	q.log.Warn("traces were not delivered", failure.TracesLost.Attr(), "spans", q.lost, "error", reason(err, q.url))
	q.said, q.lost = time.Now(), 0
}

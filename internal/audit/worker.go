package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

const (
	// queueBytes bounds the memory of the records that wait for a sink.
	queueBytes = 64 << 20
	// beyond is how many records a queue takes above its bound where calls wait for room:
	// those of calls that ran already when it was reached.
	beyond = 4096
	// batchSize is how many records are written together at most.
	batchSize = 512
	// gather is the time between two writes, unless much waits, as in the log: waking the writer
	// costs a call more than its record does.
	gather = 50 * time.Millisecond
	// settleAfter is how long a sink is idle before it may settle.
	settleAfter = time.Second
	// retryFirst and retryMost bound the time between two tries of a sink that fails.
	retryFirst = 100 * time.Millisecond
	retryMost  = 10 * time.Second
	// endTimeout bounds how long a sink that a reload has given up tries to write what is left.
	endTimeout = 30 * time.Second
)

// setup holds everything in which two workers can differ.
type setup struct {
	sink  Sink
	limit int
	block bool // calls wait for room
	key   string
}

// worker brings records to one sink.
type worker struct {
	setup
	deps    Deps
	started time.Time // of the process
	metrics sinkMetrics
	out     output
	after   []*worker // that have to end first

	wake    chan struct{} // holds one token: there is something to do
	much    chan struct{} // holds one token: a quarter of the queue is full
	stop    chan struct{} // closed by end
	done    chan struct{}
	give    context.Context // ends when nothing more is tried
	abandon context.CancelFunc

	// Of run only.
	chain     record.Chain
	begun     bool // the anchor of the beginning was written
	unsettled bool
	failing   bool
	batch     []*record.Record
	text      []byte
	entries   []entry
	backoff   time.Duration // before the next try, if one fails

	mu      sync.Mutex // guards the fields below; not held while run writes
	pending []*record.Record
	bytes   int
	gap     *record.Record // the last one pending, if that stands for lost ones
	lost    int64          // after the end, when no record of a gap can be written
	room    chan struct{}  // closed when there is room again; nil if no call waits
	ended   bool
	trouble Status // of failures alone
}

// newWorker makes a worker. plan numbers the configurations of the process.
func newWorker(s setup, out output, j *Journal, key *record.Key, plan int64) *worker {
	chain := j.deps.Replica + "." + s.sink.Name
	if plan > 1 { // an earlier sink of this name may have begun a chain somewhere else
		chain += "." + strconv.FormatInt(plan, 10)
	}
	w := &worker{
		setup: s, backoff: j.deps.retry, deps: j.deps, started: j.started, metrics: j.deps.Metrics.of(s.sink.Name), out: out,
		wake: make(chan struct{}, 1), much: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		chain: record.NewChain(chain, key),
	}
	w.give, w.abandon = context.WithCancel(context.Background())
	return w
}

// admit waits until there is room, where calls have to.
func (w *worker) admit(ctx context.Context) error {
	if !w.block {
		return nil
	}
	for counted := false; ; counted = true {
		room := w.full()
		if room == nil {
			return nil
		}
		if !counted {
			w.metrics.waits.Inc()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// full returns a channel that is closed when there may be room again, nil if there is room.
func (w *worker) full() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.pending) < w.limit && w.bytes < queueBytes {
		return nil
	}
	if w.room == nil {
		w.room = make(chan struct{})
	}
	return w.room
}

// put queues a record, or counts it as lost.
func (w *worker) put(r *record.Record) {
	limit, most := w.limit, queueBytes
	if w.block {
		limit, most = limit+beyond, 2*queueBytes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.pending) >= limit || w.bytes+r.Size() > most {
		w.lose(1)
		return
	}
	w.gap = nil
	w.queue(r)
}

// queue adds a record. The caller holds mu.
func (w *worker) queue(r *record.Record) {
	w.pending = append(w.pending, r)
	w.bytes += r.Size()
	w.metrics.queued.Inc()
	give(w.wake)
	if len(w.pending) > w.limit/4 || w.bytes > queueBytes/4 {
		give(w.much)
	}
}

func give(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// lose counts lost records, in a record of the gap, which stands where they are missing. The
// caller holds mu.
func (w *worker) lose(n int64) {
	w.missed(n)
	if w.ended {
		w.lost += n
		return
	}
	if w.gap == nil {
		w.gap = &record.Record{Time: time.Now(), Kind: record.KindGap, Reason: "the queue was full"}
		w.queue(w.gap)
	}
	w.gap.Count += n
}

// refused begins the queue with a record of the gap that n records leave which the receiver has
// not taken. Some were counted before.
func (w *worker) refused(n, before int64) {
	if n == 0 { // anchors only
		return
	}
	gap := &record.Record{Time: time.Now(), Kind: record.KindGap, Reason: "the receiver has refused them", Count: n}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed(n - before)
	w.pending = slices.Insert(w.pending, 0, gap)
	w.bytes += gap.Size()
	w.metrics.queued.Inc()
}

// take takes what is written next out of the queue.
func (w *worker) take() (batch []*record.Record, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.pending), batchSize)
	batch = append(w.batch[:0], w.pending[:n]...)
	for _, r := range batch {
		w.bytes -= r.Size()
		if r == w.gap {
			w.gap = nil
		}
	}
	rest := copy(w.pending, w.pending[n:])
	clear(w.pending[rest:])
	w.pending = w.pending[:rest]
	w.metrics.queued.Sub(float64(n))
	if rest < w.limit {
		w.makeRoom()
	}
	return batch, w.ended
}

// makeRoom releases the calls that wait for room. The caller holds mu.
func (w *worker) makeRoom() {
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}

// end lets the worker write what waits, and then stop.
func (w *worker) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.stop)
	}
	w.makeRoom()
}

// wait returns when the worker has ended. When ctx ends, what is left is given up.
func (w *worker) wait(ctx context.Context) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		w.abandon()
		grace := time.NewTimer(time.Second)
		defer grace.Stop()
		select { // it notices at once unless it hangs in a system call
		case <-w.done:
		case <-grace.C:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if left := w.lost + int64(len(w.pending)); left > 0 {
		return fmt.Errorf("audit: %d records did not reach the sink %s", left, w.sink.Name)
	}
	return nil
}

// over reports whether the worker has ended.
func (w *worker) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// run writes until the worker ends.
func (w *worker) run() {
	defer close(w.done)
	defer w.abandon()
	for _, before := range w.after {
		<-before.done
		if before.sink.Name == w.sink.Name && before.sink.place() == w.sink.place() {
			w.chain.Follow(before.chain)
		}
	}
	w.after = nil
	for w.next() {
	}
	if err := w.out.close(); err != nil {
		w.deps.Log.Warn("audit: a sink was not closed in good order", failure.StopUnclean.Attr(), "sink",
			w.sink.Name, "error", err)
	}
}

// next writes what waits, or waits for it. It returns false at the end.
func (w *worker) next() bool {
	batch, ended := w.take()
	event := ""
	switch {
	case !w.begun:
		event = record.EventStart
	case len(batch) > 0:
	case ended:
		event = record.EventStop
	case w.chain.Unanchored > 0 && time.Since(w.chain.Since) >= record.AnchorAfter:
		event = record.EventRecords
	default:
		w.idle()
		return true
	}
	written := w.deliver(batch, event)
	if !written {
		w.mu.Lock()
		w.ended = true
		w.lose(int64(len(batch)))
		w.makeRoom()
		w.mu.Unlock()
	}
	clear(batch) // releases the records
	w.batch = batch
	if !written || event == record.EventStop {
		return false
	}
	if len(batch) < batchSize {
		w.pause()
	}
	return true
}

// idle waits for something to do.
func (w *worker) idle() {
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	switch {
	case w.unsettled:
		due.Reset(settleAfter)
	case w.chain.Unanchored > 0:
		due.Reset(time.Until(w.chain.Since.Add(record.AnchorAfter)))
	}
	select {
	case <-w.wake:
	case <-w.stop:
	case <-due.C:
		if w.unsettled {
			w.unsettled = false
			w.note(w.out.settle())
		}
	}
}

// pause lets more records come, to be written together.
func (w *worker) pause() {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.much:
	case <-w.stop:
	}
}

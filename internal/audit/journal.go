package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// Deps are the dependencies of a Journal.
type Deps struct {
	// Replica is the name of this process, different at each start, and Version what it runs.
	Replica, Version string
	// Log receives messages for the operator; nil for none.
	Log *slog.Logger
	// Metrics count records; nil for none.
	Metrics *Metrics
	// Also takes each record besides the sinks, whether there are any or not. It must not wait.
	// nil for none.
	Also func(*record.Record)
	// Stdout is where the sink of this type writes; nil for the process's.
	Stdout io.Writer

	retry time.Duration // between two tries; shorter in tests
}

// Journal takes records for all sinks. It is safe for concurrent use. Nothing is recorded by a
// nil Journal, nor by one without sinks.
type Journal struct {
	deps    Deps
	started time.Time
	on      atomic.Bool // there are sinks, or there is Also
	key     atomic.Pointer[record.Key]
	plans   atomic.Int64 // how many configurations there were

	mu      sync.RWMutex // guards the fields below; held for writing only while they change
	workers []*worker
	retired []*worker // that a reload has ended, and that may still write
}

// New makes a Journal and starts its sinks. It fails for a sink that cannot be written to.
func New(cfg Config, deps Deps) (*Journal, error) {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Metrics == nil {
		deps.Metrics = NewMetrics(nil)
	}
	if deps.Stdout == nil {
		deps.Stdout = os.Stdout
	}
	if deps.retry == 0 {
		deps.retry = retryFirst
	}
	j := &Journal{deps: deps, started: time.Now()}
	plan, err := j.Plan(cfg)
	if err != nil {
		return nil, err
	}
	plan()
	return j, nil
}

// Enabled reports whether anything is recorded.
func (j *Journal) Enabled() bool { return j != nil && j.on.Load() }

// Key returns the key of the chains, nil for none.
func (j *Journal) Key() *record.Key { return j.key.Load() }

// Admit waits, before a call runs, until each sink that must not lose records has room for
// more. Errors: that of ctx.
func (j *Journal) Admit(ctx context.Context) error {
	if !j.Enabled() {
		return nil
	}
	j.mu.RLock()
	workers := j.workers
	j.mu.RUnlock()
	for _, w := range workers {
		if err := w.admit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Put records r with all sinks. It never waits. r must not change afterwards.
func (j *Journal) Put(r *record.Record) {
	if !j.Enabled() {
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	j.mu.RLock() // so that no worker is given up between finding it and putting
	defer j.mu.RUnlock()
	for _, w := range j.workers {
		w.put(r)
	}
	if j.deps.Also != nil {
		j.deps.Also(r)
	}
}

// Plan prepares another configuration. Errors are those of sinks that cannot be written to;
// then nothing changes. apply puts it in force: a sink that did not change goes on as it is,
// all others end when they have written what waits for them.
func (j *Journal) Plan(cfg Config) (apply func(), err error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	cfg = cfg.WithDefaults()
	var key *record.Key
	if cfg.Key != "" {
		if key, err = record.NewKey([]byte(string(cfg.Key))); err != nil {
			return nil, fmt.Errorf("audit: key: %w", err)
		}
	}
	j.mu.RLock()
	before := j.workers
	j.mu.RUnlock()
	plan := j.plans.Add(1)
	var next, fresh []*worker
	for i, s := range cfg.Sinks {
		setup := setup{s, cfg.Queue, cfg.OnFull == OnFullBlock, string(cfg.Key)}
		same := func(w *worker) bool { return reflect.DeepEqual(w.setup, setup) }
		if at := slices.IndexFunc(before, same); at >= 0 {
			next = append(next, before[at])
			continue
		}
		out, err := newOutput(s, j.deps)
		if err != nil {
			return nil, fmt.Errorf("audit: sinks[%d]: %w", i, err)
		}
		w := newWorker(setup, out, j, key, plan)
		next, fresh = append(next, w), append(fresh, w)
	}
	return func() { j.swap(before, next, fresh, key) }, nil
}

func (j *Journal) swap(before, next, fresh []*worker, key *record.Key) {
	var over []*worker
	for _, w := range before {
		if !slices.Contains(next, w) {
			over = append(over, w)
		}
	}
	j.mu.Lock()
	j.workers = next
	j.retired = append(slices.DeleteFunc(j.retired, (*worker).over), over...)
	after := slices.Clone(j.retired)
	j.key.Store(key)
	j.on.Store(len(next) > 0 || j.deps.Also != nil)
	j.mu.Unlock()
	for _, w := range over {
		w.end()
		time.AfterFunc(endTimeout, w.abandon)
	}
	for _, w := range fresh {
		w.after = after // they may write to the same place
		go w.run()
	}
	for _, w := range over {
		if !slices.ContainsFunc(next, func(other *worker) bool { return other.sink.Name == w.sink.Name }) {
			j.deps.Metrics.forget(w.sink.Name)
		}
	}
}

// Close writes what waits, and ends the sinks. What is not written when ctx ends is lost, which
// is the error. Nothing is recorded afterwards. It may be called twice.
func (j *Journal) Close(ctx context.Context) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	workers := append(j.workers, j.retired...)
	j.workers, j.retired = nil, nil
	j.on.Store(false)
	j.mu.Unlock()
	for _, w := range workers {
		w.end()
	}
	var errs []error
	for _, w := range workers {
		errs = append(errs, w.wait(ctx))
	}
	return errors.Join(errs...)
}

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

// pipe is a standard output that can be blocked and made to fail.
type pipe struct {
	mu   sync.Mutex
	text bytes.Buffer
	err  error
	hold chan struct{} // writes wait until it is closed; nil for no wait
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	return p.text.Write(b)
}

func (p *pipe) set(hold chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold, p.err = hold, err
}

func (p *pipe) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// value is the value of a metric with one series.
func value(t *testing.T, of prometheus.Collector) float64 {
	t.Helper()
	series := make(chan prometheus.Metric, 10)
	of.Collect(series)
	var m dto.Metric
	if err := (<-series).Write(&m); err != nil || len(series) > 0 {
		t.Fatal(err, len(series))
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// row is what the tests look at of a record.
type row struct {
	Seq                     uint64
	Kind, Event, ID, Reason string
	Count                   int64
}

func (r row) String() string {
	switch r.Kind {
	case record.KindAnchor:
		return "anchor " + r.Event
	case record.KindGap:
		return fmt.Sprintf("gap %d", r.Count)
	}
	return r.ID
}

// rows reads lines, and checks their chain.
func rows(t *testing.T, texts ...string) (all []string) {
	t.Helper()
	v := record.NewVerifier(nil, nil)
	for i, text := range texts {
		if err := v.Read(fmt.Sprint(i), strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			all = append(all, r.String())
		}
	}
	if r := v.Report(); !r.OK() {
		t.Errorf("the chain is broken: %v", r.Findings)
	}
	return all
}

func wantRows(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func call(id string) *record.Record { return &record.Record{Kind: record.KindCall, ID: id} }

func stdoutConfig(onFull string, queue int) Config {
	return Config{Sinks: []Sink{{Type: TypeStdout}}, OnFull: onFull, Queue: queue}
}

func started(t *testing.T, cfg Config, deps Deps) *Journal {
	t.Helper()
	deps.Replica = "alpha"
	j, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func closed(t *testing.T, j *Journal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := j.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestJournal(t *testing.T) {
	var out pipe
	j := started(t, stdoutConfig("", 0), Deps{Stdout: &out})
	if !j.Enabled() {
		t.Error("it records nothing")
	}
	for i := range 2000 {
		if err := j.Admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.Put(call(fmt.Sprint(i)))
	}
	closed(t, j)
	closed(t, j)
	j.Put(call("too late"))
	all := rows(t, out.String())
	if len(all) != 2003 || all[0] != "anchor start" || all[1] != "0" || all[1001] != "anchor records" ||
		all[2002] != "anchor stop" {
		t.Errorf("%d records: %q ... %q", len(all), all[:2], all[1000:1002])
	}
}

// TestGathers: records in quick succession are written together, and before the queue is full.
func TestGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		j := started(t, stdoutConfig(OnFullDrop, 8), Deps{Stdout: &out})
		time.Sleep(gather)
		j.Put(call("0"))
		synctest.Wait() // a pause begins
		j.Put(call("1"))
		j.Put(call("2"))
		synctest.Wait()
		wantRows(t, rows(t, out.String()), "anchor start", "0")
		j.Put(call("3"))
		synctest.Wait()
		wantRows(t, rows(t, out.String()), "anchor start", "0", "1", "2", "3")
		j.Put(call("4"))
		time.Sleep(gather)
		synctest.Wait()
		wantRows(t, rows(t, out.String()), "anchor start", "0", "1", "2", "3", "4")
		closed(t, j)
	})
}

// TestFullQueueDrops: what does not fit is counted, and a record says how much it was where it
// is missing.
func TestFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		hold := make(chan struct{})
		metrics := NewMetrics(prometheus.NewRegistry())
		out.set(hold, nil)
		j := started(t, stdoutConfig(OnFullDrop, 2), Deps{Stdout: &out, Metrics: metrics})
		synctest.Wait() // the first anchor hangs
		for i := range 7 {
			j.Put(call(fmt.Sprint(i)))
		}
		if n := value(t, metrics.dropped); n != 5 {
			t.Errorf("%v are counted as lost, want 5", n)
		}
		if n := value(t, metrics.queued); n != 3 { // with the one about the gap
			t.Errorf("%v wait", n)
		}
		close(hold)
		out.set(nil, nil)
		time.Sleep(time.Second)
		j.Put(call("7"))
		closed(t, j)
		wantRows(t, rows(t, out.String()), "anchor start", "0", "1", "gap 5", "7", "anchor stop")
	})
}

// TestFullQueueBlocks: calls wait before they run; those that run already lose nothing.
func TestFullQueueBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		hold := make(chan struct{})
		metrics := NewMetrics(prometheus.NewRegistry())
		out.set(hold, nil)
		j := started(t, stdoutConfig(OnFullBlock, 2), Deps{Stdout: &out, Metrics: metrics})
		synctest.Wait()
		for i := range 4 { // of calls that run
			j.Put(call(fmt.Sprint(i)))
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := j.Admit(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call whose caller leaves: %v", err)
		}
		admitted := make(chan error, 1)
		go func() { admitted <- j.Admit(t.Context()) }()
		synctest.Wait()
		if len(admitted) > 0 {
			t.Error("a call does not wait")
		}
		close(hold)
		out.set(nil, nil)
		if err := <-admitted; err != nil {
			t.Error(err)
		}
		closed(t, j)
		wantRows(t, rows(t, out.String()), "anchor start", "0", "1", "2", "3", "anchor stop")
		if w, d := value(t, metrics.waits), value(t, metrics.dropped); w != 2 || d != 0 {
			t.Errorf("%v waits, %v lost", w, d)
		}
	})
}

// TestNothingGrows: even where calls wait, what is put without waiting has a bound.
func TestNothingGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, onFull := range []string{OnFullDrop, OnFullBlock} {
			var out pipe
			hold := make(chan struct{})
			out.set(hold, nil)
			metrics := NewMetrics(prometheus.NewRegistry())
			j := started(t, stdoutConfig(onFull, 10), Deps{Stdout: &out, Metrics: metrics})
			synctest.Wait()
			for range 3 * beyond {
				j.Put(call("x"))
			}
			if n := value(t, metrics.queued); n > beyond+11 {
				t.Errorf("%s: %v wait", onFull, n)
			}
			large := &record.Record{Kind: record.KindCall, Arguments: []byte(`"` + strings.Repeat("x", 16<<20) + `"`)}
			for range 20 {
				j.Put(large)
			}
			w := j.workers[0]
			if w.bytes > 2*queueBytes {
				t.Errorf("%s: %d bytes wait", onFull, w.bytes)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := j.Close(ctx); err == nil {
				t.Errorf("%s: nothing is said of what is lost", onFull)
			}
			cancel()
			close(hold)
			<-w.done
		}
	})
}

// TestSinkFails: a failure is tried again until it works, and nothing is written twice.
func TestSinkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		metrics := NewMetrics(prometheus.NewRegistry())
		out.set(nil, errors.New("no space left"))
		j := started(t, stdoutConfig("", 0), Deps{Stdout: &out, Metrics: metrics})
		j.Put(call("1"))
		time.Sleep(time.Minute)
		if n := value(t, metrics.failures); n < 5 || n > 20 {
			t.Errorf("%v failures in a minute", n)
		}
		out.set(nil, nil)
		time.Sleep(retryMost)
		j.Put(call("2"))
		closed(t, j)
		wantRows(t, rows(t, out.String()), "anchor start", "1", "anchor records", "2", "anchor stop")
		// A stop does not wait for a sink that never works.
		out.set(nil, errors.New("no space left"))
		j = started(t, stdoutConfig("", 0), Deps{Stdout: &out})
		j.Put(call("3"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := j.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 records did not reach the sink stdout") {
			t.Error(err)
		}
	})
}

// TestAnchorsInTime: an anchor follows a minute after the first record without one, and no
// other one follows while nothing happens.
func TestAnchorsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		j := started(t, stdoutConfig("", 0), Deps{Stdout: &out})
		j.Put(call("1"))
		time.Sleep(record.AnchorAfter - time.Second)
		wantRows(t, rows(t, out.String()), "anchor start", "1")
		time.Sleep(2 * time.Second)
		wantRows(t, rows(t, out.String()), "anchor start", "1", "anchor records")
		time.Sleep(time.Hour)
		closed(t, j)
		wantRows(t, rows(t, out.String()), "anchor start", "1", "anchor records", "anchor stop")
	})
}

// TestAnchorsWhileMuchComes: an anchor stands in every minute of records, too, if there is never
// a moment without one to write, or if they wait longer than that.
func TestAnchorsWhileMuchComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out pipe
		j := started(t, Config{Sinks: []Sink{{Type: TypeStdout}}, Key: mcp.Secret(auditKey)}, Deps{Stdout: &out})
		for range 600 { // too few for an anchor by their number
			j.Put(call("x"))
			time.Sleep(gather - time.Millisecond)
		}
		out.set(nil, errors.New("no space left"))
		for range 600 {
			j.Put(call("x"))
			time.Sleep(time.Second)
		}
		out.set(nil, nil)
		closed(t, j)
		key, err := record.NewKey([]byte(auditKey))
		if err != nil {
			t.Fatal(err)
		}
		v := record.NewVerifier(key, nil)
		if err := v.Read("f", strings.NewReader(out.String())); err != nil {
			t.Fatal(err)
		}
		if r := v.Report(); !r.OK() || !r.Signed || !r.Closed || r.Records < 1210 {
			t.Errorf("%+v", r)
		}
	})
}

// TestReload: sinks come and go while calls are recorded, and each record is in every sink that
// was there.
func TestReload(t *testing.T) {
	var out pipe
	path := t.TempDir() + "/audit.jsonl"
	with := func(max int64) Config {
		return Config{OnFull: OnFullBlock, Sinks: []Sink{{Type: TypeStdout}, {Type: TypeFile, Path: path, MaxBytes: max}}}
	}
	j := started(t, with(1<<20), Deps{Stdout: &out})
	stop, recorded := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				recorded <- n
				return
			default:
				_ = j.Admit(context.Background())
				j.Put(call(fmt.Sprint(n)))
			}
		}
	}()
	for i := range 20 {
		cfg := with(int64(i+1) << 20)
		cfg.Queue = 10_000 + i
		apply, err := j.Plan(cfg)
		if err != nil {
			t.Fatal(err)
		}
		apply()
	}
	close(stop)
	n := <-recorded
	closed(t, j)
	for i, texts := range [][]string{{out.String()}, filesOf(t, path)} {
		all := slices.DeleteFunc(rows(t, texts...), func(r string) bool { return strings.HasPrefix(r, "anchor") })
		if len(all) != n {
			t.Errorf("%d of %d records are in sink %d", len(all), n, i)
		}
	}
	if _, err := j.Plan(Config{Sinks: []Sink{{Type: TypeFile, Path: t.TempDir() + "/none/audit.jsonl"}}}); err == nil ||
		!strings.Contains(err.Error(), "audit: sinks[0]: path: ") {
		t.Error(err)
	}
}

// TestOffCostsNothing: without sinks, recording allocates nothing.
func TestOffCostsNothing(t *testing.T) {
	off := started(t, Config{}, Deps{})
	r := call("1")
	for _, j := range []*Journal{nil, off} {
		if n := testing.AllocsPerRun(100, func() {
			if j.Enabled() || j.Admit(t.Context()) != nil {
				t.Error("it does something")
			}
			j.Put(r)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
	closed(t, off)
	closed(t, nil)
}

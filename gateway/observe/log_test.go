package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/gateway/observe"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

func TestNewLogger(t *testing.T) {
	t.Run("all lines, whole, in order, after close", func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for i := range 1000 {
			log.Info("line", "n", i)
			fmt.Fprintf(&want, "level=INFO msg=line n=%d\n", i)
		}
		done()
		if got := withoutTime(out.String()); got != want.String() {
			t.Errorf("got %q...", got[:min(len(got), 300)])
		}
	})
	t.Run("level and format", func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{Level: slog.LevelWarn, Format: observe.FormatJSON},
			nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("hidden")
		log.Warn("shown")
		done()
		var line map[string]any
		if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "shown" {
			t.Errorf("got %q, %v", out.String(), err)
		}
	})
	t.Run("a level that changes", func(t *testing.T) {
		var out bytes.Buffer
		var level slog.LevelVar
		log, done, err := observe.NewLogger(&out, observe.LogConfig{Level: slog.LevelError}, &level, nil)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("shown")
		level.Set(slog.LevelWarn)
		log.Info("hidden")
		done()
		if got := withoutTime(out.String()); got != "level=INFO msg=shown\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("lines after close, and closing twice", func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		done()
		done()
		log.Info("late")
		if !strings.Contains(out.String(), "msg=late") {
			t.Errorf("got %q, want the late line", out.String())
		}
	})
	t.Run("an unknown format", func(t *testing.T) {
		_, _, err := observe.NewLogger(&bytes.Buffer{}, observe.LogConfig{Format: "xml"}, nil, nil)
		if err == nil || err.Error() != `log: format: "xml": want text or json` {
			t.Errorf("got %v", err)
		}
	})
	t.Run("values that change, groups and attributes of the logger", func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		log = log.With("a", 1).WithGroup("g")
		var want strings.Builder
		changing := map[string]int{}
		for i := range 100 {
			changing["n"] = i
			log.Info("plain", "n", i, "s", "x y")
			log.Info("any", "m", changing, "e", errors.New("e"), slog.Group("h", "k", true))
			fmt.Fprintf(&want,
				"level=INFO msg=plain a=1 g.n=%d g.s=\"x y\"\nlevel=INFO msg=any a=1 g.m=map[n:%d] g.e=e g.h.k=true\n", i, i)
		}
		done()
		if got := withoutTime(out.String()); got != want.String() {
			t.Errorf("got %q...", got[:min(len(got), 300)])
		}
	})
	t.Run("many writers", func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					log.Info("line")
				}
			})
		}
		wg.Wait()
		done()
		if got := strings.Count(out.String(), " msg=line\n"); got != 800 {
			t.Errorf("got %d whole lines, want 800", got)
		}
	})
}

// A writer that hangs must not delay the caller, and lost lines are reported.
func TestNewLoggerSlowWriter(t *testing.T) {
	w := &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	reg := prometheus.NewRegistry()
	log, done, err := observe.NewLogger(w, observe.LogConfig{}, nil, observe.NewLogMetrics(reg))
	if err != nil {
		t.Fatal(err)
	}
	log.Info("first")
	<-w.entered // the writer goroutine hangs in w now
	const lines = 1500
	filler := strings.Repeat("x", 1000)
	for range lines {
		log.Info(filler)
	}
	close(w.open)
	done()
	written := strings.Count(w.out.String(), filler)
	if written == 0 || written >= lines {
		t.Fatalf("%d of %d lines were kept, want some and not all", written, lines)
	}
	if want := fmt.Sprintf("level=WARN msg=\"log lines dropped, the log's writer is too slow\" error_code=GH-LOG-SLOW count=%d\n", lines-written); !strings.Contains(w.out.String(), want) {
		t.Errorf("no line %q at the end: %q", want, w.out.String()[w.out.Len()-300:])
	}
	if got := series(t, reg)["log_lines_dropped_total{}"]; got != float64(lines-written) {
		t.Errorf("%v lines are counted, want %d", got, lines-written)
	}
}

// TestNewLoggerCallsAreApart: however many calls there are, the lines that operators wait for are not
// dropped.
func TestNewLoggerCallsAreApart(t *testing.T) {
	w := &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	log, done, err := observe.NewLogger(w, observe.LogConfig{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("first")
	<-w.entered
	observer := &observe.Observer{Log: log, Metrics: observe.NewMetrics(nil)}
	failing := mcp.HandlerFunc(func(context.Context, *mcp.Call) (*mcp.Reply, error) { return nil, errors.New("broken") })
	const calls = 5000
	for range calls {
		_, _ = observer.Observe(t.Context(), &mcp.Call{Method: mcp.MethodToolsCall, Name: "up__work",
			Verdict: &mcp.Verdict{}}, failing)
	}
	for i := range 100 {
		log.Info("configuration reloaded", "n", i, "error", errors.New("formatted at once"))
	}
	close(w.open)
	done()
	text := w.out.String()
	if n := strings.Count(text, "configuration reloaded"); n != 100 {
		t.Errorf("%d of 100 lines are there", n)
	}
	if n := strings.Count(text, "msg=call "); n == 0 || n >= calls ||
		!strings.Contains(text, fmt.Sprintf("count=%d\n", calls-n)) {
		t.Errorf("%d of %d calls are there: %q", n, calls, text[len(text)-300:])
	}
}

// Lines in quick succession are written together, but much is written at once.
func TestNewLoggerGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, done, err := observe.NewLogger(&out, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		written := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(out.String(), "\n"); got != want {
				t.Errorf("%d lines are written, want %d", got, want)
			}
		}
		log.Info("first")
		written(1)
		log.Info("second")
		written(1)
		for range 300 {
			log.Info(strings.Repeat("x", 1000))
		}
		written(302)
		log.Info("last")
		time.Sleep(time.Second)
		written(303)
		done()
	})
}

func TestNewLoggerCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
		log, done, err := observe.NewLogger(w, observe.LogConfig{}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("first")
		<-w.entered
		start := time.Now()
		done()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("closing took %s", took)
		}
		log.Info("late") // must not wait for the writer either
		close(w.open)
	})
}

// gate is a writer that hangs until it is opened.
type gate struct {
	entered chan struct{}
	open    chan struct{}
	out     bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	return g.out.Write(b)
}

func withoutTime(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		_, rest, _ := strings.Cut(line, " ")
		out.WriteString(rest)
	}
	return out.String()
}

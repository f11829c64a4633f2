package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// fullDisk names the file and on_full for the process in which files cannot grow.
const fullDisk = "GATEHOUSE_TEST_FULL_DISK"

// TestFullDisk: while the disk is full, records wait within the bound, and calls go on or wait as
// the operator has chosen. When there is room again, the chain is whole: what was written in
// part has been taken back, and a gap says what is missing.
func TestFullDisk(t *testing.T) {
	if place := os.Getenv(fullDisk); place != "" {
		fillDisk(t, place)
		return
	}
	t.Parallel()
	for _, onFull := range []string{OnFullDrop, OnFullBlock} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), fullDisk+"="+onFull+" "+path)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", onFull, err, out)
		}
		all := rows(t, textOf(t, path))
		if last := all[len(all)-2:]; last[0] != "last" || last[1] != "anchor stop" {
			t.Errorf("%s: it ends with %q", onFull, last)
		}
		if gaps := strings.Count(fmt.Sprint(all), "gap"); (gaps > 0) != (onFull == OnFullDrop) {
			t.Errorf("%s: %d gaps", onFull, gaps)
		}
	}
}

// fillDisk is the other process: its files may have 16 KiB, and later any size.
func fillDisk(t *testing.T, place string) {
	onFull, path, _ := strings.Cut(place, " ")
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails instead
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	small := limit
	small.Cur = 16 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	metrics := NewMetrics(prometheus.NewRegistry())
	j := started(t, Config{OnFull: onFull, Queue: 10, Sinks: []Sink{{Type: TypeFile, Path: path}}},
		Deps{Metrics: metrics, retry: short})
	for i := 0; value(t, metrics.failures) == 0; i++ {
		if err := j.Admit(t.Context()); err != nil {
			t.Fatal(err)
		}
		j.Put(call(fmt.Sprint(i)))
		until(t, "it is written, or fails",
			func() bool { return value(t, metrics.queued) == 0 || value(t, metrics.failures) > 0 })
	}
	for range 100 {
		j.Put(call("waits"))
	}
	if n := value(t, metrics.queued); n > 111 || onFull == OnFullDrop && n > 11 {
		t.Errorf("%v wait", n)
	}
	brief, cancel := context.WithTimeout(t.Context(), 20*short)
	defer cancel()
	if err := j.Admit(brief); errors.Is(err, context.DeadlineExceeded) != (onFull == OnFullBlock) {
		t.Errorf("a call: %v", err)
	}
	if n := value(t, metrics.dropped); (n > 0) != (onFull == OnFullDrop) {
		t.Errorf("%v are lost", n)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	until(t, "everything is written", func() bool { return value(t, metrics.queued) == 0 })
	j.Put(call("last"))
	closed(t, j)
}

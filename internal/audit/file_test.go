package audit

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// filesOf returns the contents of all files of a sink, oldest first.
func filesOf(t *testing.T, path string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(strings.TrimSuffix(path, ".jsonl") + "-*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, name := range append(names, path) {
		all = append(all, textOf(t, name))
	}
	return all
}

func verifyAll(t *testing.T, text string) {
	t.Helper()
	v := record.NewVerifier(nil, nil)
	if err := v.Read("f", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if r := v.Report(); !r.OK() || r.Torn != 1 || !r.Closed {
		t.Errorf("%+v", r)
	}
}

func fileConfig(path string, s Sink) Config {
	s.Type, s.Path = TypeFile, path
	return Config{Sinks: []Sink{s}}
}

// TestFileGoesOn: a chain goes on over restarts.
func TestFileGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for _, sync := range []string{SyncAlways, SyncNever} {
		j := started(t, fileConfig(path, Sink{Sync: sync}), Deps{})
		j.Put(call(sync))
		closed(t, j)
	}
	wantRows(t, rows(t, textOf(t, path)), "anchor file", "always", "anchor stop", "anchor start", "never", "anchor stop")
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFileAfterCrash: an incomplete line stays where it is, and the record after it accounts for
// it. What is no record at all is put aside.
func TestFileAfterCrash(t *testing.T) {
	for name, tt := range map[string]struct {
		cut  int // bytes at the end
		add  string
		want []string
	}{
		"within a record":  {cut: 40, want: []string{"anchor file", "1", "anchor start", "2", "anchor stop"}},
		"without its end":  {cut: 1, want: []string{"anchor file", "1", "anchor stop", "anchor start", "2", "anchor stop"}},
		"something else":   {add: "\nhello\n", want: []string{"anchor file", "2", "anchor stop"}},
		"one line, no end": {cut: 1 << 20, add: "hello", want: []string{"anchor file", "2", "anchor stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			j := started(t, fileConfig(path, Sink{}), Deps{})
			j.Put(call("1"))
			closed(t, j)
			text := textOf(t, path)
			text = text[:max(0, len(text)-tt.cut)] + tt.add
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path + record.LastSuffix); err != nil { // a crash comes before it
				t.Fatal(err)
			}
			j = started(t, fileConfig(path, Sink{}), Deps{})
			j.Put(call("2"))
			closed(t, j)
			got := textOf(t, path)
			if name == "within a record" { // the torn line is no JSON
				if !strings.Contains(got, `"torn":`) || !strings.HasPrefix(got, text+"\n") {
					t.Errorf("got %s", got)
				}
				verifyAll(t, got)
				return
			}
			wantRows(t, rows(t, got), tt.want...)
			if tt.add != "" {
				if all := filesOf(t, path); len(all) != 2 || !strings.HasPrefix(all[0], text) {
					t.Errorf("what was there is not kept: %q", all)
				}
			}
		})
	}
}

func TestFileRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		j := started(t, fileConfig(path, Sink{MaxBytes: leastBytes, MaxAge: time.Hour}), Deps{})
		for range 3 {
			for range 200 {
				j.Put(call("x"))
			}
			time.Sleep(time.Second)
		}
		bySize := len(filesOf(t, path))
		if bySize < 2 {
			t.Errorf("%d files for 200 KB", bySize)
		}
		time.Sleep(time.Hour)
		j.Put(call("y"))
		closed(t, j)
		all := filesOf(t, path)
		if len(all) != bySize+1 {
			t.Errorf("%d files, want one more for the age", len(all))
		}
		for i, text := range all {
			if got := rows(t, text)[0]; got != "anchor file" {
				t.Errorf("file %d begins with %s", i, got)
			}
		}
		if n := len(rows(t, all...)); n < 601 {
			t.Errorf("%d records", n)
		}
		// Of several, the newest are kept. Other files stay.
		other := strings.TrimSuffix(path, ".jsonl") + "-notes.jsonl"
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		j = started(t, fileConfig(path, Sink{MaxAge: time.Minute, Keep: 2}), Deps{})
		for range 3 {
			j.Put(call("z"))
			time.Sleep(2 * time.Minute)
		}
		closed(t, j)
		names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if len(names) != 5 || !slices.Contains(names, other) {
			t.Errorf("there are %q", names)
		}
		if err := os.Remove(other); err != nil {
			t.Fatal(err)
		}
		rows(t, filesOf(t, path)...)
	})
}

// TestFileIsMoved: after another program has renamed, deleted or cut the file, records go to
// the path again, and the chain goes on.
func TestFileIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		j := started(t, fileConfig(path, Sink{}), Deps{})
		j.Put(call("1"))
		time.Sleep(time.Second)
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		j.Put(call("2"))
		time.Sleep(time.Second)
		first, second := textOf(t, path+".1"), textOf(t, path)
		wantRows(t, rows(t, first, second), "anchor file", "1", "anchor file", "2")
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		j.Put(call("3"))
		closed(t, j)
		wantRows(t, rows(t, first, second, textOf(t, path)), "anchor file", "1", "anchor file", "2", "anchor file",
			"3", "anchor stop")
	})
}

// auditKey signs anchors.
const auditKey = "a secret of thirty-two bytes, 12"

// TestFileCutBack: a file that ends earlier than its gateway has left it, at a place where it once
// ended in good order, is found while the gateway is away, and for ever after its next start.
func TestFileCutBack(t *testing.T) {
	for _, key := range []string{"", auditKey} {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		run := func() {
			j := started(t, Config{Sinks: []Sink{{Type: TypeFile, Path: path}}, Key: mcp.Secret(key)}, Deps{})
			j.Put(call("x"))
			closed(t, j)
		}
		found := func() []string {
			var secret []byte
			if key != "" {
				secret = []byte(key)
			}
			given, err := filepath.Glob(strings.TrimSuffix(path, ".jsonl") + "*")
			if err != nil {
				t.Fatal(err)
			}
			given = slices.DeleteFunc(given, func(name string) bool { return strings.HasSuffix(name, ".away") })
			reports, err := record.VerifyFiles(given, secret, nil)
			if err != nil || len(reports) != 1 || !reports[0].Closed {
				t.Fatal(reports, err)
			}
			var all []string
			for _, f := range reports[0].Findings {
				all = append(all, f.What)
			}
			return all
		}
		run()
		early := textOf(t, path)
		run()
		if got := found(); got != nil {
			t.Errorf("an intact file: %q", got)
		}
		if err := os.WriteFile(path, []byte(early), 0o600); err != nil {
			t.Fatal(err)
		}
		want := []string{"record 6, which is known from audit.jsonl.last, is missing"}
		if got := found(); !slices.Equal(got, want) {
			t.Errorf("after the cut: %q", got)
		}
		run()
		want = []string{"records 4 to 6 are missing"}
		if got := found(); !slices.Equal(got, want) {
			t.Errorf("after a start: %q", got)
		}
		lost := path + record.LastSuffix
		if err := os.Rename(lost, lost+".away"); err != nil {
			t.Fatal(err)
		}
		if key != "" {
			want = append(want, "it is missing, though it says to which record the chain goes")
		}
		if got := found(); !slices.Equal(got, want) {
			t.Errorf("without the last anchor: %q", got)
		}
		if err := os.Rename(lost+".away", lost); err != nil {
			t.Fatal(err)
		}
		// The whole file is gone, of several.
		if err := os.Rename(path, strings.TrimSuffix(path, ".jsonl")+"-20261123T025300.000.jsonl"); err != nil {
			t.Fatal(err)
		}
		run()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		run()
		want = []string{"records 4 to 6 are missing", "records 10 to 12 are missing"}
		if got := found(); !slices.Equal(got, want) {
			t.Errorf("after the loss of a file: %q", got)
		}
	}
}

// TestFileOfAnother: two processes do not write to one file: the second one waits.
func TestFileOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		metrics := NewMetrics(prometheus.NewRegistry())
		first := started(t, fileConfig(path, Sink{}), Deps{})
		first.Put(call("1"))
		synctest.Wait()
		time.Sleep(time.Second)
		second := started(t, fileConfig(path, Sink{}), Deps{Metrics: metrics})
		second.Put(call("2"))
		time.Sleep(time.Second)
		if value(t, metrics.failures) == 0 {
			t.Error("both write")
		}
		closed(t, first)
		time.Sleep(retryMost)
		closed(t, second)
		wantRows(t, rows(t, textOf(t, path)), "anchor file", "1", "anchor stop", "anchor start", "2", "anchor stop")
	})
}

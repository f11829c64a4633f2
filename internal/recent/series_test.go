package recent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// noon is the beginning of a minute.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func counted(after time.Duration, upstream, outcome string, took time.Duration) *record.Record {
	return &record.Record{
		Time: noon.Add(after), Kind: record.KindCall, Method: "tools/call", Name: "x", Upstream: upstream,
		Decision: "allow", Rule: "all", Outcome: outcome, Duration: took,
	}
}

// counts is a Point without its time and latencies.
func counts(p Point) string {
	return fmt.Sprint(p.Calls, " calls, ", p.Errors, " errors, ", p.Refused, " refused, ", p.TurnedAway, " turned away")
}

func TestWhatCounts(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    record.Record
		want string
	}{
		{"a call", record.Record{Kind: record.KindCall, Name: "x", Decision: "allow", Outcome: "ok"},
			"1 calls, 0 errors, 0 refused, 0 turned away"},
		{"a call that its caller left", record.Record{Kind: record.KindCall, Name: "x", Outcome: "cancelled"},
			"1 calls, 0 errors, 0 refused, 0 turned away"},
		{"a list", record.Record{Kind: record.KindCall, Method: "tools/list", Outcome: "ok"},
			"0 calls, 0 errors, 0 refused, 0 turned away"},
		{"a question", record.Record{Kind: record.KindCall, Name: "x", Decision: "ask", Approval: "asked", Outcome: "ask"},
			"0 calls, 0 errors, 0 refused, 0 turned away"},
		{"a failed server", record.Record{Kind: record.KindCall, Name: "x", Outcome: "upstream"},
			"1 calls, 1 errors, 0 refused, 0 turned away"},
		{"our own failure", record.Record{Kind: record.KindCall, Name: "x", Outcome: "internal"},
			"1 calls, 1 errors, 0 refused, 0 turned away"},
		{"denied", record.Record{Kind: record.KindCall, Name: "x", Decision: "deny", Outcome: "invalid"},
			"0 calls, 0 errors, 1 refused, 0 turned away"},
		{"unknown", record.Record{Kind: record.KindCall, Name: "x", Decision: "unknown", Outcome: "invalid"},
			"0 calls, 0 errors, 1 refused, 0 turned away"},
		{"limited", record.Record{Kind: record.KindCall, Name: "x", Decision: "allow", Outcome: "limited"},
			"0 calls, 0 errors, 1 refused, 0 turned away"},
		{"declined", record.Record{Kind: record.KindCall, Name: "x", Decision: "ask", Approval: "declined", Outcome: "error"},
			"0 calls, 0 errors, 1 refused, 0 turned away"},
		{"a hook", record.Record{Kind: record.KindCall, Name: "x", Decision: "allow", Outcome: "error",
			Error: "GH-HOOK-REFUSED"}, "0 calls, 0 errors, 1 refused, 0 turned away"},
		{"a bad token", record.Record{Kind: record.KindSignIn, Event: "refused"},
			"0 calls, 0 errors, 0 refused, 1 turned away"},
		{"many bad tokens", record.Record{Kind: record.KindSignIn, Event: "refused", Count: 7},
			"0 calls, 0 errors, 0 refused, 7 turned away"},
		{"a good token", record.Record{Kind: record.KindSignIn, Event: "ok"}, "0 calls, 0 errors, 0 refused, 0 turned away"},
		{"a bad request", record.Record{Kind: record.KindRefused}, "0 calls, 0 errors, 0 refused, 1 turned away"},
		{"an operator", record.Record{Kind: record.KindAdmin, Event: "refused"},
			"0 calls, 0 errors, 0 refused, 0 turned away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSeries(noon)
			tt.r.Time = noon
			s.Put(&tt.r)
			if got := counts(s.Total("", Coarse, noon, noon.Add(1))); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestSteps: whatever is counted when, both kinds of steps have all of it that is kept, and sums
// of steps are those of records.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		s := NewSeries(noon)
		at, all := time.Duration(0), []time.Duration(nil)
		for range random.IntN(300) {
			at += time.Duration(random.IntN(60_000)) * time.Millisecond
			all = append(all, at)
			s.Put(counted(at, "crm", "ok", time.Millisecond))
		}
		now := noon.Add(at)
		for step, kept := range map[time.Duration]int{Fine: fineSteps, Coarse: coarseSteps} {
			points := s.Points("crm", step, noon, now)
			oldest := now.Truncate(step).Add(-time.Duration(kept-1) * step)
			want := int64(0)
			for _, a := range all {
				if !noon.Add(a).Before(oldest) {
					want++
				}
			}
			sum := int64(0)
			for i, p := range points {
				sum += p.Calls
				if i > 0 && p.At.Sub(points[i-1].At) != step {
					t.Fatalf("round %d: %s follows %s", round, p.At, points[i-1].At)
				}
			}
			if sum != want || len(points) > kept || !points[len(points)-1].At.Equal(now.Truncate(step)) {
				t.Errorf("round %d: %d of %d calls in %d steps of %s", round, sum, want, len(points), step)
			}
			if total := s.Total("crm", step, noon, now.Add(1)); total.Calls != want {
				t.Errorf("round %d: a total of %d of %d calls", round, total.Calls, want)
			}
		}
	}
}

// TestLate: a record that comes after younger ones counts where it belongs, or not at all.
func TestLate(t *testing.T) {
	s := NewSeries(noon)
	s.Put(counted(3*time.Hour, "", "ok", 0))
	s.Put(counted(3*time.Hour-time.Minute, "", "ok", 0))
	s.Put(counted(time.Minute, "", "ok", 0))
	now := noon.Add(3 * time.Hour)
	points := s.Points("", Coarse, now.Add(-Longest), now)
	if last := points[len(points)-1]; len(points) != coarseSteps || last.Calls != 1 || points[len(points)-2].Calls != 1 ||
		s.Total("", Coarse, noon, now.Add(1)).Calls != 2 {
		t.Errorf("%d points, the last ones %+v", len(points), points[len(points)-2:])
	}
	if got := s.Total("", Coarse, noon.Add(6*time.Hour), noon.Add(7*time.Hour)); got.Calls != 0 {
		t.Errorf("much later there are %d calls", got.Calls)
	}
}

// TestQuantiles: quantiles are off by less than half.
func TestQuantiles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 50 {
		s := NewSeries(noon)
		var all []float64
		for range 1 + random.IntN(500) {
			took := time.Duration(math.Exp(random.Float64()*18)) * time.Microsecond // up to 66 s
			all = append(all, inMS(took))
			s.Put(counted(0, "crm", "ok", took))
		}
		slices.Sort(all)
		p := s.Total("crm", Fine, noon, noon.Add(1))
		for _, q := range []struct{ got, part float64 }{{p.P50, 0.5}, {p.P99, 0.99}} {
			want := all[int(math.Ceil(q.part*float64(len(all))))-1]
			if q.got > max(1, want*1.7) || q.got < want/1.7 && want > 1 {
				t.Errorf("round %d: %g of %d calls took %g ms, want %g", round, q.part, len(all), q.got, want)
			}
		}
		if p.Slowest != all[len(all)-1] || p.P50 > p.P99 || p.P99 > p.Slowest {
			t.Errorf("round %d: %+v, the slowest took %g ms", round, p, all[len(all)-1])
		}
	}
}

// TestApprovers: how long people took to approve is not how long calls take.
func TestApprovers(t *testing.T) {
	s := NewSeries(noon)
	slow := counted(0, "crm", "ok", time.Hour)
	slow.Approver = "bob"
	s.Put(slow)
	s.Put(counted(0, "crm", "ok", 4*time.Millisecond))
	if p := s.Total("crm", Fine, noon, noon.Add(1)); p.Calls != 2 || p.Slowest != 4 || p.P99 > 4 {
		t.Errorf("%+v", p)
	}
}

func TestRules(t *testing.T) {
	s := NewSeries(noon)
	for i, rule := range []string{"a", "b", "a", ""} {
		r := counted(time.Duration(i)*time.Second, "crm", "ok", 0)
		r.Rule = rule
		s.Put(r)
	}
	unknown := counted(time.Minute, "", "invalid", 0)
	unknown.Decision, unknown.Rule = "unknown", ""
	s.Put(unknown)
	rules, since := s.Rules()
	if len(rules) != 3 || rules["a"] != (Decided{2, noon.Add(2 * time.Second)}) || rules["b"].Count != 1 ||
		rules[""].Count != 1 || !since.Equal(noon) {
		t.Errorf("%v since %s", rules, since)
	}
	for _, changed := range [][]string{{"limits"}, {"limits", "policy"}} {
		s.Put(&record.Record{Time: noon.Add(time.Hour), Kind: record.KindReload, Event: "applied", Changed: changed})
	}
	if rules, since = s.Rules(); len(rules) != 0 || !since.Equal(noon.Add(time.Hour)) {
		t.Errorf("after a reload: %v since %s", rules, since)
	}
}

// TestSeriesAreBounded: no more servers and rules are counted than there may be, and servers that are not
// called any more make room.
func TestSeriesAreBounded(t *testing.T) {
	s := NewSeries(noon)
	for i := range mostUpstreams + 5 {
		s.Put(counted(0, fmt.Sprint("u", i), "ok", 0))
	}
	if n := len(s.Totals(Coarse, noon, noon.Add(1))); n != mostUpstreams {
		t.Errorf("%d servers", n)
	}
	if p := s.Total("", Coarse, noon, noon.Add(1)); p.Calls != mostUpstreams+5 {
		t.Errorf("%d calls in all", p.Calls)
	}
	s.Put(counted(Longest+time.Second, "new", "ok", 0))
	if totals := s.Totals(Coarse, noon.Add(Longest), noon.Add(Longest+time.Minute)); len(totals) != 1 ||
		totals["new"].Calls != 1 {
		t.Errorf("later: %v", totals)
	}
	for i := range mostRules + 5 {
		r := counted(0, "new", "ok", 0)
		r.Rule = fmt.Sprint(i)
		s.Put(r)
	}
	if rules, _ := s.Rules(); len(rules) != mostRules+1 {
		t.Errorf("%d rules", len(rules))
	}
}

// TestPutCosts: counting a call allocates nothing once its server and rule are known.
func TestPutCosts(t *testing.T) {
	s, r := NewSeries(noon), counted(0, "crm", "ok", time.Millisecond)
	s.Put(r)
	if n := testing.AllocsPerRun(100, func() { s.Put(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTotals(b *testing.B) {
	s := NewSeries(noon)
	for i := range mostUpstreams {
		for minute := range coarseSteps {
			s.Put(counted(time.Duration(minute)*time.Minute, fmt.Sprint("u", i), "ok", time.Millisecond))
		}
	}
	for b.Loop() {
		s.Totals(Coarse, noon, noon.Add(Longest))
	}
}

func BenchmarkPut(b *testing.B) {
	s, r := NewSeries(noon), counted(0, "crm", "ok", time.Millisecond)
	for b.Loop() {
		s.Put(r)
	}
}

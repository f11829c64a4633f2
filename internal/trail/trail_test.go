package trail_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// most is how many bytes trails have in these tests.
const most = 16 << 20

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := trail.New(trail.ModeShape, most)
		walked := all.Begin("a-1", time.Now())
		wait := func() { <-time.After(time.Second) }
		came := time.Now()
		wait()
		walked.Was("identity", came, time.Now())
		limits := walked.Stage("limits")
		wait()
		policy := walked.Stage("policy") // ends limits
		wait()
		server := walked.Begin("server", "crm")
		wait()
		credential := walked.Begin("credential", "")
		credential.End("")
		server.End("GH-X")
		server.End("again")
		policy.End("late")
		limits.End("late")
		walked.NextRound()
		walked.Begin("user", "")
		all.End(walked, "alice", false)
		all.End(walked, "alice", false)
		v, ok := all.Find("a-1")
		got := ""
		for _, s := range v.Steps {
			got += fmt.Sprintf("%d %s%s %v %v %s %v\n", s.Round, s.Name, s.Of, s.Start, s.Took, s.Result, s.Open)
		}
		const want = `1 identity 0s 1s  false
1 limits 1s 1s  false
1 policy 2s 1s  false
1 servercrm 3s 1s GH-X false
1 credential 4s 0s  false
2 user 4s 0s  true
`
		if !ok || got != want {
			t.Errorf("%v\n%s", ok, got)
		}
	})
}

// TestNobodyLooks: without Trails, nothing is noted, and nothing is allocated.
func TestNobodyLooks(t *testing.T) {
	var none *trail.Trails
	header, body := http.Header{"Mcp-Name": {"x"}}, []byte("{}")
	allocs := testing.AllocsPerRun(100, func() {
		walked := none.Begin("a-1", time.Time{})
		walked.Stage("policy").End("")
		step := walked.Begin("server", "crm")
		walked.FromClient(header, body)
		walked.ToClient(200, body)
		walked.ToServer(header, body)
		walked.FromServer(body)
		walked.NextRound()
		step.End("")
		none.End(walked, "alice", false)
	})
	if _, ok := none.Find("a-1"); ok || allocs != 0 {
		t.Errorf("%v, %v allocations", ok, allocs)
	}
}

func TestMessages(t *testing.T) {
	all := trail.New(trail.ModeFull, most)
	walked := all.Begin("a-1", time.Now())
	header := http.Header{"Mcp-Method": {"tools/call"}, "Authorization": {"C4N4RY"}, "Cookie": {"C4N4RY"}, "Mcp-Session-Id": {"C4N4RY"}, "Mcp-Param-Region": {"eu"}}
	text := []byte(`{"id":1}`)
	walked.FromClient(header, text[:4], text[4:])
	clear(text) // its memory is used again
	walked.ToServer(nil, bytes.Repeat([]byte("x"), 1<<20))
	for range 100 {
		walked.FromServer([]byte("{}"))
	}
	all.End(walked, "alice", false)
	v, _ := all.Find("a-1")
	first, second := v.Messages[0], v.Messages[1]
	if string(first.Text) != `{"id":1}` || first.Edge != trail.Client || !first.In || strings.Contains(fmt.Sprint(first.Headers), "C4N4RY") || len(first.Headers) != 2 {
		t.Errorf("the first: %+v", first)
	}
	if len(second.Text) != trail.MessageBytes || cap(second.Text) > 2*trail.MessageBytes || second.Bytes != 1<<20 || second.In {
		t.Errorf("the second: %d of %d bytes", len(second.Text), second.Bytes)
	}
	if len(v.Messages)+v.Missed != 102 || len(v.Messages) != 24 {
		t.Errorf("%d messages, %d missed", len(v.Messages), v.Missed)
	}
	all.Keep(trail.ModeOff, most)
	if unkept := all.Begin("a-2", time.Now()); unkept.Messages() || !walked.Messages() {
		t.Error("off keeps messages")
	}
}

// TestRunningCallsForgetNothing: what calls say that still run takes nothing from those that have
// ended.
func TestRunningCallsForgetNothing(t *testing.T) {
	all := trail.New(trail.ModeFull, most)
	large := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 60 { // more than all ended calls may have together
		running := all.Begin(fmt.Sprint("running", i), time.Now())
		for range 24 {
			running.ToClient(0, large)
		}
	}
	for i := range 3 {
		all.End(all.Begin(fmt.Sprint("ended", i), time.Now()), "alice", false)
	}
	for i := range 3 {
		if _, ok := all.Find(fmt.Sprint("ended", i)); !ok {
			t.Errorf("call %d is forgotten", i)
		}
	}
}

// TestTrailsAreBounded: many calls at the same time, with as much as they can say, take a bounded
// memory, and the last ones can be found.
func TestTrailsAreBounded(t *testing.T) {
	all := trail.New(trail.ModeFull, most)
	large := bytes.Repeat([]byte("x"), 1<<20)
	const workers, calls = 4, 200
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			for i := range calls {
				walked := all.Begin(fmt.Sprint(w, "-", i), time.Now())
				for range 30 {
					walked.ToClient(0, large)
					walked.Begin("hook", "x")
				}
				all.End(walked, "alice", false)
				walked.FromServer(large) // late
				all.Find(fmt.Sprint(w, "-", i/2))
			}
		})
	}
	done.Wait()
	kept, size := 0, 0
	for w := range workers {
		for i := range calls {
			v, ok := all.Find(fmt.Sprint(w, "-", i))
			if ok {
				kept++
			}
			for _, m := range v.Messages {
				size += len(m.Text)
			}
			if len(v.Steps) > 128 {
				t.Errorf("%d steps", len(v.Steps))
			}
		}
	}
	if kept == 0 || size > most || size == 0 {
		t.Errorf("%d calls, %d bytes", kept, size)
	}
	if v, ok := all.Find(fmt.Sprint(0, "-", calls-1)); ok && len(v.Steps) == 0 {
		t.Error("a call that is kept has no steps")
	}
}

// TestOrdinaryCallsGoFirst: calls that failed or were slow stay longest, those of others stay beside
// a user who makes many, and the newest call is there.
func TestOrdinaryCallsGoFirst(t *testing.T) {
	all := trail.New(trail.ModeOff, 1<<20)
	now := time.Now()
	end := func(id, user string, began time.Time, failed bool) { all.End(all.Begin(id, began), user, failed) }
	for i := range 3 {
		end(fmt.Sprint("failed", i), "busy", now, true)
		end(fmt.Sprint("slow", i), "busy", now.Add(-time.Minute), false)
		end(fmt.Sprint("ok", i), "busy", now, false)
		end(fmt.Sprint("quiet", i), "quiet", now, false)
	}
	for i := range 5000 {
		end(fmt.Sprint("more", i), "busy", now, false)
	}
	for id, want := range map[string]bool{
		"failed0": true, "slow0": true, "ok0": false, "quiet0": true, "more1": false, "more4999": true,
	} {
		if _, ok := all.Find(id); ok != want {
			t.Errorf("%s is found: %v", id, ok)
		}
	}
}

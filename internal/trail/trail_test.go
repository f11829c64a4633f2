package trail_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// kept are trails with messages.
func kept(mode trail.Mode) *trail.Trails {
	ts := &trail.Trails{}
	ts.Keep(mode, 16<<20)
	return ts
}

func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := kept(trail.ModeShape)
		walked := all.Begin(time.Now())
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
		v, ok := walked.View()
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
		walked := none.Begin(time.Time{})
		walked.Stage("policy").End("")
		step := walked.Begin("server", "crm")
		walked.FromClient(header, body)
		walked.ToClient(200, body)
		walked.ToServer(header, body)
		walked.FromServer(body)
		walked.NextRound()
		step.End("")
		walked.Forget()
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func TestMessages(t *testing.T) {
	all := kept(trail.ModeFull)
	walked := all.Begin(time.Now())
	header := http.Header{"Mcp-Method": {"tools/call"}, "Authorization": {"C4N4RY"}, "Cookie": {"C4N4RY"},
		"Mcp-Session-Id": {"C4N4RY"}, "Mcp-Param-Region": {"eu"}}
	text := []byte(`{"id":1}`)
	walked.FromClient(header, text[:4], text[4:])
	clear(text) // its memory is used again
	walked.ToServer(nil, bytes.Repeat([]byte("x"), 1<<20))
	for range 100 {
		walked.FromServer([]byte("{}"))
	}
	v, _ := walked.View()
	first, second := v.Messages[0], v.Messages[1]
	if string(first.Text) != `{"id":1}` || first.Edge != trail.Client || !first.In ||
		strings.Contains(fmt.Sprint(first.Headers), "C4N4RY") || len(first.Headers) != 2 {
		t.Errorf("the first: %+v", first)
	}
	if len(second.Text) != trail.MessageBytes || cap(second.Text) > 2*trail.MessageBytes ||
		second.Bytes != 1<<20 || second.In {
		t.Errorf("the second: %d of %d bytes", len(second.Text), second.Bytes)
	}
	if len(v.Messages)+v.Missed != 102 || len(v.Messages) != 24 {
		t.Errorf("%d messages, %d missed", len(v.Messages), v.Missed)
	}
	all.Keep(trail.ModeOff, 16<<20)
	if unkept := all.Begin(time.Now()); unkept.Messages() || !walked.Messages() {
		t.Error("off keeps messages")
	}
	walked.Forget()
	walked.FromServer([]byte("late"))
	if v, ok := walked.View(); ok || len(v.Messages) > 0 || walked.Size() != 0 {
		t.Errorf("what is forgotten: %+v", v)
	}
}

package stateful_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// page is a question by URLElicitationRequiredError, which servers with sessions have.
const page = "page"

// TestQuestionsArePaced: each client is asked at most as often as a minute allows.
// Excess questions are refused, towards the server or in the call that cannot go on.
func TestQuestionsArePaced(t *testing.T) {
	for name, stateful := range map[string]bool{"stateful": true, "stateless": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testQuestionsArePaced(t, stateful) })
		})
	}
}

// testQuestionsArePaced runs in a bubble of synctest.
func testQuestionsArePaced(t *testing.T, stateful bool) {
	s := startPaced(t, stateful, upstream.Limits{QuestionsPerMinute: 2})
	refused := 0
	for i, step := range []struct {
		after          time.Duration
		client, method string
		times          int
		asked          bool
	}{
		{0, "a", mcp.MethodElicit, 2, true},
		{0, "a", mcp.MethodElicit, 3, false},
		{0, "b", mcp.MethodElicit, 2, true}, // another client has its own minute
		{25 * time.Second, "a", mcp.MethodElicit, 1, false},
		{10 * time.Second, "a", mcp.MethodElicit, 1, true},
		{0, "a", mcp.MethodElicit, 1, false},
		{5 * time.Minute, "a", mcp.MethodElicit, 2, true}, // unused questions do not add up
		{0, "a", mcp.MethodElicit, 1, false},
		{0, "c", mcp.MethodCreateMessage, 20, true}, // ten count as one
		{0, "c", mcp.MethodCreateMessage, 1, false},
		{0, "d", mcp.MethodRootsList, 15, true},
		{0, "d", mcp.MethodElicit, 1, false}, // of the same minute
		{0, "d", mcp.MethodCreateMessage, 5, true},
		{0, "e", page, 2, true},
		{0, "e", page, 1, false},
	} {
		if step.method == page && !stateful {
			continue
		}
		time.Sleep(step.after)
		for n := range step.times {
			if got := s.asks(t, step.client, step.method); got != step.asked {
				t.Fatalf("step %d, %s number %d to %s: asked %t, want %t", i, step.method, n+1, step.client, got, step.asked)
			}
			if !step.asked {
				refused++
			}
		}
	}
	if got := s.refused(t); got != refused {
		t.Errorf("%d are counted, %d were refused", got, refused)
	}
	synctest.Wait()
	// The third question, and one five minutes later; not every refused one in between.
	if got := strings.Count(s.log.String(), "asks a client too much"); got != 2 {
		t.Errorf("it was logged %d times, want twice: %s", got, s.log.String())
	}
}

// pacedServer asks, in each tool call, the kind of question that the tool is named after.
type pacedServer struct {
	*upstream.Upstream
	stateful bool
	log      bytes.Buffer
	registry *prometheus.Registry
}

// startPaced is for a bubble of synctest.
func startPaced(t *testing.T, stateful bool, limits upstream.Limits) *pacedServer {
	t.Helper()
	answers := make(chan fake.Message, 1)
	f := fake.NewBubble(t, stateful, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		name, _ := mcp.Raw(m.Params).Member("name")
		responses, _ := mcp.Raw(m.Params).Member("inputResponses")
		question := fmt.Sprintf(`"method":%q,"params":{"message":"m","requestedSchema":{"type":"object"},"messages":[],"maxTokens":1}`, name.Text())
		switch {
		case m.Method == "" && m.ID != nil:
			answers <- m
			return false
		case m.Method != mcp.MethodToolsCall:
			return false
		case name.Text() == page:
			fake.Failure(w, http.StatusOK, m, pageRequired)
		case stateful:
			fake.Events(w, `data: {"jsonrpc":"2.0","id":"q",`+question+"}\n\n")
			select {
			case a := <-answers:
				fake.Events(w, fake.Event(m, "", string(mcp.Object("said", mcp.String(string(a.Error))))))
			case <-r.Context().Done():
			}
		case responses == nil:
			fake.Result(w, m, `{"resultType":"input_required","inputRequests":{"q":{`+question+`}}}`)
		default:
			fake.Result(w, m, fake.OK)
		}
		return true
	})
	s := &pacedServer{stateful: stateful, registry: prometheus.NewRegistry()}
	transport := &http.Transport{DialContext: f.Network.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	s.Upstream, err = upstream.New(upstream.Config{Name: "fake", URL: f.URL, Limits: limits}, upstream.Deps{
		Log: slog.New(slog.NewTextHandler(&s.log, nil)), HTTP: transport, Metrics: upstream.NewMetrics(s.registry),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close(t, s.Upstream) })
	return s
}

// asks makes a call, and reports whether the client was asked the question that the tool is
// named after.
func (s *pacedServer) asks(t *testing.T, client, method string) bool {
	t.Helper()
	c := fake.Asked(method)
	c.Session = "user:" + client
	reply, err := fake.Do(t, s.Upstream, c)
	if err != nil {
		if s.stateful && method != page {
			t.Fatalf("the server was told, and the call failed nevertheless: %v", err)
		}
		fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedUnknown)
		return false
	}
	if reply.Ask == nil {
		said, _ := reply.Result.Member("said")
		if !strings.Contains(said.Text(), "asked too much") {
			t.Fatalf("nobody was asked, and the server was told %q", said.Text())
		}
		return false
	}
	if method == page {
		return true
	}
	answer := map[string]string{
		mcp.MethodElicit: `{"action":"decline"}`, mcp.MethodRootsList: `{"roots":[]}`,
		mcp.MethodCreateMessage: `{"role":"assistant","content":{"type":"text","text":""},"model":"m"}`,
	}[method]
	if reply = fake.MustDo(t, s.Upstream, answerTo(c, reply.Ask, answer)); reply.Result == nil {
		t.Fatalf("after the answer: %+v", reply)
	}
	return true
}

// refused returns the value of the metric.
func (s *pacedServer) refused(t *testing.T) int {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gatehouse_upstream_questions_refused_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatal("there is no such metric")
	return 0
}

// TestQuestionsOfTasksArePaced: a task with too many questions is cancelled, because
// nobody will come back for it.
func TestQuestionsOfTasksArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := taskFake(t, false, func(w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method == mcp.MethodTasksGet {
				fake.Result(w, m, `{"taskId":"t","status":"input_required","inputRequests":{"q":{`+fake.Elicit+`}}}`)
			}
			return m.Method == mcp.MethodTasksGet
		})
		u := f.Upstream(t, upstream.Config{Limits: upstream.Limits{QuestionsPerMinute: 1}})
		if ask := fake.MustDo(t, u, inTask()).Ask; ask == nil || len(ask.Requests) != 1 {
			t.Fatalf("asked %+v, want one question", ask)
		}
		_, err := fake.Do(t, u, inTask())
		fake.WantError(t, err, mcp.CodeOverloaded, mcp.ExecutedUnknown)
		f.Await(t, mcp.MethodTasksCancel, 1)
	})
}

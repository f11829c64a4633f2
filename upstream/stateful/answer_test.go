package stateful_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/upstreamtest/fake"
)

// TestAnswersInTheServersWords: answers get the form of the server's revision, even from a
// client of the newest revision.
func TestAnswersInTheServersWords(t *testing.T) {
	const sample = `"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}`
	for _, tt := range []struct{ name, version, question, answer, want string }{
		{"blocks, of a server that knows them", "2025-11-25", sample,
			`{"role":"assistant","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			`{"role":"assistant","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		{"a block in an array", "2025-06-18", sample,
			`{"role":"assistant","model":"m","content":[{"type":"text","text":"a"}]}`,
			`{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}`},
		{"blocks", "2025-06-18", sample,
			`{"role":"assistant","model":"m","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			`"code":-32603`},
		{"audio", "2024-11-05", sample,
			`{"role":"assistant","model":"m","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}`, `"code":-32603`},
		{"audio, of a server that knows it", "2025-03-26", sample,
			`{"role":"assistant","model":"m","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}`,
			`{"role":"assistant","model":"m","content":{"type":"audio","data":"AA","mimeType":"audio/wav"}}`},
		{"several values", "2025-06-18", fake.Elicit, `{"action":"accept","content":{"a":["x"]}}`, `"code":-32603`},
		{"roots", "2025-03-26", `"method":"roots/list"`, `{"roots":[{"uri":"file:///a","_meta":{"x":1}}]}`,
			`{"roots":[{"uri":"file:///a"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, u := askingFake(t, upstream.Config{}, []string{`"id":"q",` + tt.question})
				f.Version = tt.version
				c := fake.Asked("a")
				reply := fake.MustDo(t, u, c)
				if reply.Ask == nil {
					t.Fatalf("reply %+v", reply)
				}
				said, _ := fake.MustDo(t, u, answerTo(c, reply.Ask, tt.answer)).Result.Member("said")
				if got := said.Text(); !strings.Contains(got, tt.want) {
					t.Errorf("the server was answered %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestContextOfOtherServers: to the client many servers look like one, so the context would
// contain what other servers said.
func TestContextOfOtherServers(t *testing.T) {
	const with = `{"messages":[],"maxTokens":1,"includeContext":"allServers"}`
	const without = `{"messages":[],"maxTokens":1}`
	check := func(t *testing.T, u *fake.Upstream) {
		t.Helper()
		c := fake.Asked("a")
		c.Caps = mcp.Raw(`{"sampling":{"context":{}}}`)
		ask := fake.MustDo(t, u, c).Ask
		if ask == nil || string(ask.Requests[0].Params) != without {
			t.Errorf("asked %+v", ask)
		}
	}
	t.Run("stateful", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, u := askingFake(t, upstream.Config{}, []string{`"id":"q","method":"sampling/createMessage","params":` + with})
			check(t, u)
			if got := string(f.Requests(mcp.MethodInitialize)[0].Params); !strings.Contains(got, `"sampling":{}`) {
				t.Errorf("declared %s", got)
			}
		})
	})
	t.Run("stateless", func(t *testing.T) {
		f := fake.New(t, false, func(_ *fake.Server, w http.ResponseWriter, _ *http.Request, m fake.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			fake.Result(w, m, `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":`+
				with+`}}}`)
			return true
		})
		check(t, fake.Start(t, upstream.Config{URL: f.URL}))
		if got := string(f.Requests(mcp.MethodToolsCall)[0].Params); !strings.Contains(got, `"sampling":{}`) {
			t.Errorf("declared %s", got)
		}
	})
}

// The client is told when a question is withdrawn that it may be showing.
func TestWithdrawnQuestionsAreTold(t *testing.T) {
	f, u, say, finish := getStreamFake(t)
	c := fake.Asked("a")
	heard := make(chan mcp.Event, 10)
	c.Notify = func(e mcp.Event) { heard <- e }
	reply := make(chan *mcp.Reply, 1)
	go func() {
		r, err := u.Handle(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		reply <- r
	}()
	f.Await(t, mcp.MethodToolsCall, 1)
	say <- `{"jsonrpc":"2.0","id":"one",` + fake.Elicit + `}`
	ask := (<-reply).Ask
	say <- `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`
	say <- `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"one"}}`
	if e := <-heard; e.Method != mcp.NoteCancelled || string(e.Params) != `{"key":"`+ask.Requests[0].Key+`"}` {
		t.Errorf("heard %s %s", e.Method, e.Params)
	}
	say <- `{"jsonrpc":"2.0","id":"two",` + fake.Elicit + `}`
	say <- `{"jsonrpc":"2.0","id":"there","method":"ping"}`
	f.AwaitAnswer(t, "there") // so the question has arrived, too
	close(finish)             // the server no longer waits
	if e := <-heard; e.Method != mcp.NoteCancelled || string(e.Params) != `{"key":"g2"}` {
		t.Errorf("heard %s %s", e.Method, e.Params)
	}
	again := c.Clone()
	again.Round = ask.Round
	fake.WantOK(t, u, again)
}

// TestLevelsOfCallsAtOnce: a session has one level, which must not be too severe for
// any of its running calls.
func TestLevelsOfCallsAtOnce(t *testing.T) {
	release := make(chan struct{})
	f := fake.New(t, true, func(_ *fake.Server, w http.ResponseWriter, r *http.Request, m fake.Message) bool {
		if m.Method != mcp.MethodToolsCall || !strings.Contains(string(m.Params), `"slow"`) {
			return false
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return false
	})
	u := fake.Start(t, upstream.Config{URL: f.URL})
	call := func(name, level string) *mcp.Call {
		c := fake.Tool(name)
		c.Session, c.Ephemeral, c.LogLevel = "user:~c", true, level
		return c
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fake.WantOK(t, u, call("slow", "info"))
	}()
	f.Await(t, mcp.MethodToolsCall, 1)
	fake.WantOK(t, u, call("quick", "error"))
	fake.WantOK(t, u, call("quick", "debug"))
	close(release)
	<-done
	fake.WantOK(t, u, call("quick", "error"))
	var levels []string
	for _, s := range f.Requests(mcp.MethodSetLevel) {
		level, _ := mcp.Raw(s.Params).Member("level")
		levels = append(levels, level.Text())
	}
	if got := strings.Join(levels, " "); got != "info debug error" {
		t.Errorf("the levels were set to %s", got)
	}
}

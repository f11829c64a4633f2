package front

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/stream"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/session"
)

func TestStatefulClientIsAsked(t *testing.T) {
	b := newBench(t, Config{})
	seen := map[string]bool{}
	for _, c := range []struct{ name, caps, tool, method, answer, want string }{
		{"elicitation", `{"elicitation":{}}`, "ask", mcp.MethodElicit, `"result":{"action":"accept","content":{"a":1.0}}`,
			`{"answer":{"action":"accept","content":{"a":1.0}},"state":"st-1","refused":"none"}`},
		{"sampling", `{"sampling":{}}`, "ask-sampling", mcp.MethodCreateMessage,
			`"result":{"role":"assistant","model":"m","content":[]}`,
			`{"answer":{"role":"assistant","model":"m","content":[]},"state":"st-1","refused":"none"}`},
		{"an answer that is none", `{"sampling":{}}`, "ask-sampling", mcp.MethodCreateMessage,
			`"result":{"role":"assistant"}`,
			`{"answer":null,"state":"st-1","refused":"the client's answer has not the form of one"}`},
		{"an answer that is none, where no error can be told", `{"elicitation":{}}`, "ask", mcp.MethodElicit,
			`"result":{"action":"perhaps"}`,
			`{"answer":{"action":"cancel"},"state":"st-1","refused":"none"}`},
		{"_meta, which a server without sessions does not know", `{"elicitation":{}}`, "ask", mcp.MethodElicit,
			`"result":{"action":"decline","_meta":{"a":1}}`,
			`{"answer":{"action":"decline"},"state":"st-1","refused":"none"}`},
		{"_meta, of a server that knows it", `{"elicitation":{}}`, "ask-wait", mcp.MethodElicit,
			`"result":{"action":"decline","_meta":{"a":1}}`,
			`{"answer":{"action":"decline","_meta":{"a":1}},"state":"st-1","refused":"none"}`},
		{"roots", `{"roots":{}}`, "ask-roots", mcp.MethodRootsList, `"result":{"roots":[]}`,
			`{"answer":{"roots":[]},"state":"st-1","refused":"none"}`},
		{"refused", `{"sampling":{}}`, "ask-sampling", mcp.MethodCreateMessage, `"error":{"code":-1,"message":"no way"}`,
			`{"answer":null,"state":"st-1","refused":"no way"}`},
		{"a refused elicitation is cancelled where no error can be told", `{"elicitation":{}}`, "ask", mcp.MethodElicit,
			`"error":{"code":-1,"message":"no way"}`,
			`{"answer":{"action":"cancel"},"state":"st-1","refused":"none"}`},
		{"a server that waits is told the error", `{"elicitation":{}}`, "ask-wait", mcp.MethodElicit,
			`"error":{"code":-1,"message":"no way"}`,
			`{"answer":null,"state":"st-1","refused":"no way"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := b.client(v2511, c.caps)
			defer client.Delete(t.Context())
			x, err := client.SendID(t.Context(), `"call"`, "tools/call", `{"name":"`+c.tool+`"}`)
			if err != nil {
				t.Fatal(err)
			}
			q, err := x.Until(c.method)
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(q.ID)] {
				t.Errorf("the id %s was used before", q.ID)
			}
			seen[string(q.ID)] = true
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, q.ID, c.answer)
			other := b.client(v2511)
			// The first comes from another session, the last is late.
			for _, from := range []*mcptest.Client{other, client, client} {
				if ack, err := from.Post(t.Context(), answer); err != nil || ack.Status != http.StatusAccepted {
					t.Errorf("the answer: %d %v", ack.Status, err)
				}
			}
			other.Delete(t.Context())
			m, err := x.Response()
			if err != nil || string(m.ID) != `"call"` || !strings.Contains(m.Text, c.want) {
				t.Errorf("got %s %v\nwant %s", m.Text, err, c.want)
			}
			if n := b.front.Sessions.Load().Sessions; n != 1 {
				t.Errorf("%d sessions are alive", n)
			}
		})
	}
}

func TestStatefulClientThatCannotBeAsked(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct {
		name, revision, caps, tool, want string
		header                           http.Header
	}{
		{"nothing declared", v2511, `{}`, "ask", "did not declare", nil},
		{"a mode that is not declared", v2511, `{"elicitation":{}}`, "ask-url", "did not declare", nil},
		{"a revision without elicitation", v2503, `{"elicitation":{}}`, "ask", "did not declare", nil},
		{"JSON only", v2511, `{"elicitation":{}}`, "ask", "no event stream", http.Header{"Accept": {"application/json"}}},
		{"a kind that does not exist", v2511, `{"elicitation":{}}`, "ask-odd", "did not declare", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := b.client(c.revision, c.caps)
			defer client.Delete(t.Context())
			client.Header = c.header
			r, before, err := client.Call(t.Context(), "tools/call", `{"name":"`+c.tool+`"}`)
			if err != nil || len(before) != 0 || !strings.Contains(r.Text, c.want) ||
				!strings.Contains(r.Text, `"isError":true`) {
				t.Errorf("got %s after %v, %v", r.Text, before, err)
			}
		})
	}
}

// TestPageForJSONOnly: a client that opens pages, but accepts no event stream to be asked on, is told
// which page, and makes the call again.
func TestPageForJSONOnly(t *testing.T) {
	b := newBench(t, Config{})
	for name, want := range map[string]bool{"ask-url": true, "ask": false} {
		client := b.client(v2511, everything)
		client.Header = http.Header{"Accept": {"application/json"}}
		r, before, err := client.Call(t.Context(), "tools/call", `{"name":"`+name+`"}`)
		told := r.Error != nil && r.Error.Code == mcp.CodeURLElicitation &&
			strings.Contains(string(r.Error.Data), `"elicitationId"`)
		if err != nil || len(before) != 0 || told != want {
			t.Errorf("%s: got %s after %v, %v", name, r.Text, before, err)
		}
		client.Delete(t.Context())
	}
}

func TestSeveralRounds(t *testing.T) {
	b := newBench(t, Config{})
	const answer = `{"action":"accept","content":{"n":%d}}`
	want := `"structuredContent":{"b":` + fmt.Sprintf(answer, 2) + `,"c":` + fmt.Sprintf(answer, 3) + `}`
	t.Run("stateful", func(t *testing.T) {
		c := b.client(v2511, `{"elicitation":{}}`)
		x, err := c.Send(t.Context(), "tools/call", `{"name":"ask-twice","_meta":{"progressToken":1}}`)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			q, err := x.Until(mcp.MethodElicit)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Answer(t.Context(), q.ID, fmt.Sprintf(answer, n+1)); err != nil {
				t.Fatal(err)
			}
		}
		m, err := x.Response()
		if err != nil || !strings.Contains(m.Text, want) {
			t.Errorf("got %s %v", m.Text, err)
		}
		if len(x.Before) != 1 {
			t.Errorf("progress does not increase over the rounds: %v", x.Before)
		}
	})
	t.Run("stateless", func(t *testing.T) {
		c := b.client(v2607, `{"elicitation":{}}`)
		state := ""
		for _, answers := range []string{`{}`, `{"a":` + fmt.Sprintf(answer, 1) + `}`,
			`{"b":` + fmt.Sprintf(answer, 2) + `,"c":` + fmt.Sprintf(answer, 3) + `}`} {
			m, _, err := c.Call(t.Context(), "tools/call", `{"name":"ask-twice","inputResponses":`+answers+state+`}`)
			if err != nil {
				t.Fatal(err)
			}
			var next string
			if !m.Value("requestState", &next) {
				if !strings.Contains(m.Text, want) {
					t.Errorf("got %s", m.Text)
				}
				return
			}
			state = fmt.Sprintf(`,"requestState":%q`, next)
		}
		t.Error("it has no end")
	})
}

func TestAskedWhereItIsNotPossible(t *testing.T) {
	b := newBench(t, Config{})
	for _, revision := range []string{v2511, v2607} {
		m, _, err := b.client(revision, `{"elicitation":{}}`).Call(t.Context(), "completion/complete",
			`{"ref":{"type":"ref/prompt","name":"ask"}}`)
		if err != nil || m.Error == nil || m.Error.Code != mcp.CodeInternal {
			t.Errorf("%s: %s %v", revision, m.Text, err)
		}
	}
}

func TestAskTimeout(t *testing.T) {
	b := newBench(t, Config{AskTimeout: 20 * time.Millisecond})
	c := b.client(v2511, `{"elicitation":{}}`)
	r, before, err := c.Call(t.Context(), "tools/call", `{"name":"ask-wait"}`)
	if err != nil || !strings.Contains(r.Text, `"refused":"the client did not answer in time"`) {
		t.Errorf("got %s %v", r.Text, err)
	}
	if len(before) != 2 || before[1].Method != mcp.NoteCancelled ||
		!strings.Contains(before[1].Text, string(before[0].ID)) {
		t.Errorf("before it: %v", before)
	}
}

func TestCancelWhileAsking(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"elicitation":{}}`)
	x, err := c.SendID(t.Context(), "5", "tools/call", `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Until(mcp.MethodElicit); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Notify(t.Context(), "notifications/cancelled", `{"requestId":5}`); err != nil {
		t.Fatal(err)
	}
	if rest := x.Text(); rest != "" {
		t.Errorf("after it: %q", rest)
	}
}

func TestAfterAStreamBegan(t *testing.T) {
	b := newBench(t, Config{StreamAfter: time.Nanosecond})
	x, err := b.client(v2607).Send(t.Context(), "tools/call", `{"name":"ask","arguments":{}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	m, err := x.Response() // either way it is one whole answer
	if err != nil || x.Stream == (m.Error != nil) {
		t.Errorf("stream %t: %s %v", x.Stream, m.Text, err)
	}
}

// TestAnswerTooLate: a client with a session does not hear of the state of its call's rounds, which
// is the gateway's own. It hears whether the call may have run.
func TestAnswerTooLate(t *testing.T) {
	for tool, executed := range map[string]string{"ask-late": "unknown", "approve-late": "no"} {
		b := newBench(t, Config{})
		c := b.client(v2511, `{"elicitation":{}}`)
		x, err := c.Send(soon(t), mcp.MethodToolsCall, `{"name":"`+tool+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		question, err := x.Until(mcp.MethodElicit)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Answer(soon(t), question.ID, `{"action":"decline"}`); err != nil {
			t.Fatal(err)
		}
		m, err := x.Response()
		if err != nil || !strings.Contains(m.Text, `"code":50401`) ||
			!strings.Contains(m.Text, `"executed":"`+executed+`"`) || strings.Contains(m.Text, "requestState") {
			t.Errorf("%s: got %s %v", tool, m.Text, err)
		}
	}
}

// TestQuestionIsPutAgain: an open question that the event log has dropped reaches a client that comes back.
func TestQuestionIsPutAgain(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"elicitation":{}}`)
	x, err := c.Send(t.Context(), "tools/call", `{"name":"ask-wait"}`)
	if err != nil {
		t.Fatal(err)
	}
	q, err := x.Until(mcp.MethodElicit)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	at, _ := stream.ParseEventID(x.LastEventID())
	before := stream.EventID(at.Name, at.Seq-1)
	for _, step := range []struct{ name, event string }{
		{"kept", `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"short"}}`},
		{"dropped", `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` +
			strings.Repeat("long", session.LogBytes/4) + `"}}`},
	} {
		if _, err := b.store.Log().Append(t.Context(), b.home(c), at.Name, []byte(step.event)); err != nil {
			t.Fatal(err)
		}
		x := follow(t, c, before)
		again, err := x.Until(mcp.MethodElicit)
		if err != nil || again.Text != q.Text {
			t.Errorf("%s: got %s %v, want %s", step.name, again.Text, err, q.Text)
		}
		if step.name == "dropped" {
			if err := c.Answer(t.Context(), q.ID, `{"action":"accept"}`); err != nil {
				t.Fatal(err)
			}
			m, err := x.Response()
			if err != nil || !strings.Contains(m.Text, `"action":"accept"`) ||
				slices.ContainsFunc(x.Before, func(m mcptest.Message) bool { return m.Method == mcp.MethodElicit }) {
				t.Errorf("got %s %v after %v", m.Text, err, x.Before)
			}
		}
		x.Close()
	}
}

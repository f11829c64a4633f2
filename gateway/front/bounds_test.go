package front

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/front/live"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/refuse"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/request"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestStreamsOfASession: the oldest stream makes room for one too many, in good order.
func TestStreamsOfASession(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511)
	var open []*mcptest.Exchange
	for range live.MaxStreams + 2 {
		x, err := c.Get(t.Context(), "")
		if err != nil || x.Status != http.StatusOK {
			t.Fatal(x, err)
		}
		t.Cleanup(x.Close)
		open = append(open, x)
	}
	for _, x := range open[:2] {
		if text := x.Text(); !strings.HasSuffix(text, "retry: 1000\n\n") {
			t.Errorf("one that had to go: %q", text)
		}
	}
	b.script.waitListening(t, 1)
	b.script.emit(mcp.NoteToolsListChanged, `{}`)
	if m, err := open[len(open)-1].Next(); err != nil || m.Method != mcp.NoteToolsListChanged {
		t.Errorf("the newest: %s %v", m.Text, err)
	}
	if n := b.front.Sessions.Load().Streams; n != live.MaxStreams {
		t.Errorf("%d streams are open, want %d", n, live.MaxStreams)
	}
}

// TestQuestionsOfASession: the questions that wait for answers are bounded.
func TestQuestionsOfASession(t *testing.T) {
	b := newBench(t, Config{})
	c := b.client(v2511, `{"elicitation":{}}`)
	var asked []*mcptest.Exchange
	for range live.MaxQuestions {
		x, err := c.Send(t.Context(), "tools/call", `{"name":"ask"}`)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Close)
		asked = append(asked, x)
	}
	var first mcptest.Message
	for i, x := range asked {
		m, err := x.Until(mcp.MethodElicit)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = m
		}
	}
	m, _, err := c.Call(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil || m.Error == nil || m.Error.Code != mcp.CodeOverloaded ||
		!strings.Contains(m.Text, "let it answer some first") {
		t.Errorf("one too many: %s %v", m.Text, err)
	}
	wantCount(t, "questions too many", b.front.endpoint.Metrics.Bounds[refuse.BoundQuestions], 1)
	if err := c.Answer(t.Context(), first.ID, `{"action":"decline"}`); err != nil {
		t.Fatal(err)
	}
	if m, err := asked[0].Response(); err != nil || m.Error != nil {
		t.Errorf("the first: %s %v", m.Text, err)
	}
	x, err := c.Send(t.Context(), "tools/call", `{"name":"ask"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if m, err := x.Until(mcp.MethodElicit); err != nil {
		t.Errorf("when one was answered: %s %v", m.Text, err)
	}
}

// TestHeaderFieldsAreCounted: header fields are counted; net/http bounds only their bytes.
func TestHeaderFieldsAreCounted(t *testing.T) {
	b := newBench(t, Config{})
	header := modern("tools/call", "echo")
	for i := range request.MaxHeaderFields {
		header.Set(fmt.Sprint("X-", i), "1")
	}
	if resp, text := b.send("POST", call("1", "echo"), header); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(text, "header fields") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

package front

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestQuestionsAreDropped ends calls while they wait for answers: what waits is told the reason, and
// the handler gets no further round.
func TestQuestionsAreDropped(t *testing.T) {
	const asks = `{"elicitation":{}}`
	for _, c := range []struct {
		name, revision, caps string
		header               http.Header
		leave                func(t *testing.T, c *mcptest.Client) // after the question came; nil if none does
		want                 string                                // in the answer
		reason               string
	}{
		{"cancelled by its client", v2511, asks, nil, func(t *testing.T, c *mcptest.Client) {
			if _, err := c.Notify(t.Context(), mcp.NoteCancelled, `{"requestId":5,"reason":"enough"}`); err != nil {
				t.Error(err)
			}
		}, "", "the client cancelled the call: enough"},
		{"the session ends", v2511, asks, nil, func(t *testing.T, c *mcptest.Client) {
			if _, err := c.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}, `"executed":"unknown"`, "the session has ended"},
		{"the client cannot be asked", v2511, `{}`, nil, nil, "did not declare", "did not declare"},
		{"there is no stream to ask on", v2511, asks, http.Header{"Accept": {"application/json"}}, nil, "no event stream",
			"no event stream"},
		{"a stateless client cannot be asked", v2607, `{}`, nil, nil, "-32021", "Missing required client capability"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			client := b.client(c.revision, c.caps)
			client.Header = c.header
			x, err := client.SendID(t.Context(), "5", "tools/call", `{"name":"ask-here"}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if c.leave != nil {
				if _, err := x.Until(mcp.MethodElicit); err != nil {
					t.Fatal(err)
				}
				c.leave(t, client)
			}
			if reason := receive(t, "the reason", b.script.dropped); !strings.Contains(reason, c.reason) {
				t.Errorf("dropped because of %q, want %q", reason, c.reason)
			}
			if got := x.Text(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the answer is %q, want %q", got, c.want)
			}
			if got := b.script.last("tools/call"); got.Round != nil {
				t.Errorf("the call was made again with the round %s", got.Round)
			}
		})
	}
}

package front

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestWhatIsPutAsideIsLetGo ends calls while they are parked below: each is made once more,
// refused and cancelled.
func TestWhatIsPutAsideIsLetGo(t *testing.T) {
	const asks = `{"elicitation":{}}`
	for _, c := range []struct {
		name, revision, caps string
		header               http.Header
		leave                func(t *testing.T, c *mcptest.Client) // after the question came; nil if none does
		want                 string                                // in the answer
	}{
		{"cancelled by its client", v2511, asks, nil, func(t *testing.T, c *mcptest.Client) {
			if _, err := c.Notify(t.Context(), mcp.NoteCancelled, `{"requestId":5}`); err != nil {
				t.Error(err)
			}
		}, ""},
		{"the session ends", v2511, asks, nil, func(t *testing.T, c *mcptest.Client) {
			if _, err := c.Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}, `"executed":"unknown"`},
		{"the client cannot be asked", v2511, `{}`, nil, nil, "did not declare"},
		{"there is no stream to ask on", v2511, asks, http.Header{"Accept": {"application/json"}}, nil, "no event stream"},
		{"a stateless client cannot be asked", v2607, `{}`, nil, nil, "-32021"},
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
			again := receive(t, "the call, once more", b.script.started)
			if err := receive(t, "its end", b.script.ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the call was not cancelled: %v", err)
			}
			if again.State != "st-1" || again.Refused["q.1"] == nil || len(again.Answers) != 0 {
				t.Errorf("made again with state %q, answers %v, refused %v", again.State, again.Answers, again.Refused)
			}
			if got := x.Text(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the answer is %q, want %q", got, c.want)
			}
		})
	}
	t.Run("nothing is put aside", func(t *testing.T) {
		b := newBench(t, Config{})
		if _, _, err := b.client(v2511, `{}`).Call(t.Context(), "tools/call", `{"name":"ask"}`); err != nil {
			t.Fatal(err)
		}
		if got := b.script.last("tools/call"); got.State != "" {
			t.Errorf("the call was made again with the state %q", got.State)
		}
	})
}

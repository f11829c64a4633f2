package e2e

import (
	"encoding/json"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestNobodyWaitsForAnAnswerThatCannotCome ends calls while their stateful server waits for
// an answer: the server is told at once, not after its time limit.
func TestNobodyWaitsForAnAnswerThatCannotCome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, revision, caps string
		leave                func(t *testing.T, c *mcptest.Client)
	}{
		{"the client cancels", statefulClient, `{"elicitation":{}}`, func(t *testing.T, c *mcptest.Client) {
			if status, err := c.Notify(deadline(t), "notifications/cancelled", `{"requestId":1}`); err != nil || status != 202 {
				t.Errorf("cancelling: %d %v", status, err)
			}
		}},
		{"the session ends", statefulClient, `{"elicitation":{}}`, func(t *testing.T, c *mcptest.Client) {
			if status, err := c.Delete(deadline(t)); err != nil || status != 204 {
				t.Errorf("DELETE: %d %v", status, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scripted(t, statefulServer)
			s.Tools("do")
			ended := make(chan struct{})
			s.Tool("do", func(c *mcptest.Call) {
				// Whatever the answer is, the call continues until it is cancelled.
				_, _ = c.Ask("elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{}}}`)
				c.Hang()
				close(ended)
			})
			client := rawWith(t, inFrontOf(t, s), c.revision, c.caps)
			x, err := client.SendID(deadline(t), "1", "tools/call", do("a", "{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if _, err := x.Until("elicitation/create"); err != nil {
				t.Fatal(err)
			}
			c.leave(t, client)
			wasCancelled(t, s)
			receive(t, "the end of the call at the server", ended)
		})
	}
}

// wasCancelled waits until the server was told that its only call has ended.
func wasCancelled(t *testing.T, s *mcptest.Server) {
	t.Helper()
	told, err := s.Await(deadline(t), "the cancellation", isMethod("notifications/cancelled"))
	if err != nil {
		t.Fatal(err)
	}
	calls := s.Received("tools/call")
	var id json.RawMessage
	if told.Param("requestId", &id); len(calls) != 1 || string(id) != string(calls[0].ID) ||
		told.Session != calls[0].Session {
		t.Errorf("cancelled %s in %q; the calls: %+v", id, told.Session, calls)
	}
}

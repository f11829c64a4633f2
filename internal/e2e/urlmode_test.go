package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

const (
	page     = `{"mode":"url","message":"m","url":"https://a.example/x","elicitationId":"theirs"}`
	pageDone = `{"elicitationId":"theirs"}`
)

// TestQuestionsWithURLs sends users of clients of each revision to a URL, in both ways
// that a server of 2025-11-25 has.
func TestQuestionsWithURLs(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run("a question, client "+revision, func(t *testing.T) {
			s := newInquirer(t, "2025-11-25")
			s.asks([]inquiry{{"elicitation/create", page}})
			url := inFrontOf(t, s.Server)
			c, other := rawWith(t, url, revision, askable), rawWith(t, url, revision, askable)
			streams := getStreams(t, revision, c, other)
			m, asked := converse(t, c, "tools/call", `{"name":"up__do"}`, func(inquiry) string { return `{"action":"accept"}` })
			if revision < "2025-11-25" {
				if want := `{"error":-32602}`; len(asked) > 0 || outcome(m) != want && outcome(m) != `{"error":-32601}` {
					t.Errorf("asked %v; the server was answered %s", asked, outcome(m))
				}
				return
			}
			if len(asked) != 1 || outcome(m) != `{"action":"accept"}` {
				t.Fatalf("asked %v; the server was answered %s", asked, outcome(m))
			}
			var params struct{ Mode, URL, Message, ElicitationID string }
			if err := json.Unmarshal([]byte(asked[0].Params), &params); err != nil || params.URL != "https://a.example/x" ||
				params.Message != "up asks: m" || params.Mode != "url" {
				t.Errorf("asked %s", asked[0].Params)
			}
			if revision == stateless {
				if strings.Contains(asked[0].Params, "elicitationId") {
					t.Errorf("asked %s", asked[0].Params)
				}
				return
			}
			if params.ElicitationID == "" || params.ElicitationID == "theirs" {
				t.Errorf("asked %s", asked[0].Params)
			}
			if err := s.AwaitGETStreams(deadline(t), 2); err != nil { // the gateway's own, and c's
				t.Fatal(err)
			}
			s.Push("notifications/elicitation/complete", `{"elicitationId":"made up"}`)
			s.Push("notifications/elicitation/complete", pageDone)
			note, err := streams[0].Next()
			if want := fmt.Sprintf(`{"elicitationId":%q}`, params.ElicitationID); err != nil ||
				note.Method != "notifications/elicitation/complete" || string(note.Params) != want {
				t.Errorf("heard %s %v, want %s", note.Text, err, want)
			}
			// The other session gets what comes after, and nothing before it.
			s.Push("notifications/tools/list_changed", `{}`)
			if note, err := streams[1].Next(); err != nil || note.Method != "notifications/tools/list_changed" {
				t.Errorf("the other session heard %s %v", note.Text, err)
			}
		})
		t.Run("an error, client "+revision, func(t *testing.T) {
			s := newInquirer(t, "2025-11-25")
			var done atomic.Bool
			for _, method := range askMethods {
				s.On(method, func(c *mcptest.Call) {
					if done.Load() {
						finish(c, []string{"done"})
						return
					}
					c.Status(200, "application/json", fmt.Sprintf(
						`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"go there","data":{"elicitations":[%s]}}}`,
						c.ID, page))
				})
			}
			url := inFrontOf(t, s.Server)
			c := rawWith(t, url, revision, askable)
			s.name = "up"
			for _, method := range askMethods {
				done.Store(false)
				m, asked := converse(t, c, method, s.params(method), func(inquiry) string {
					done.Store(true)
					s.Push("notifications/elicitation/complete", pageDone)
					return `{"action":"accept"}`
				})
				switch {
				case revision == stateless:
					if len(asked) != 1 || outcome(m) != "done" || strings.Contains(asked[0].Params, "elicitationId") ||
						!strings.Contains(asked[0].Params, "https://a.example/x") {
						t.Errorf("%s: asked %v: %s", method, asked, m.Text)
					}
				case revision == "2025-11-25":
					var data struct {
						Elicitations []struct{ Mode, URL, Message, ElicitationID string }
					}
					if m.Error == nil || m.Error.Code != -32042 || json.Unmarshal(m.Error.Data, &data) != nil ||
						len(data.Elicitations) != 1 {
						t.Errorf("%s: %s", method, m.Text)
						continue
					}
					if e := data.Elicitations[0]; e.URL != "https://a.example/x" || e.ElicitationID == "" ||
						e.ElicitationID == "theirs" {
						t.Errorf("%s: %s", method, m.Text)
					}
				default:
					want := "error -32603"
					if method == "tools/call" {
						want = "isError"
					}
					if outcome(m) != want || strings.Contains(m.Text, "a.example") {
						t.Errorf("%s: %s", method, m.Text)
					}
				}
			}
		})
	}
}

// TestURLsOfAStatelessServer: the server says that the user is not done yet.
func TestURLsOfAStatelessServer(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			s := scripted(t, stateless)
			s.Tools("do")
			s.Tool("do", func(c *mcptest.Call) {
				state := "0"
				if c.Param("requestState", &state); state == "2" {
					c.Text("done")
					return
				}
				next := map[string]string{"0": "1", "1": "2"}[state]
				c.Result(fmt.Sprintf(`{"resultType":"input_required","requestState":%q,"inputRequests":{"q":{"method":"elicitation/create",
					"params":{"mode":"url","message":"m","url":"https://a.example/x"}}}}`, next))
			})
			c := rawWith(t, inFrontOf(t, s), revision, askable)
			if revision == stateless {
				m, asked := converse(t, c, "tools/call", `{"name":"up__do"}`, func(inquiry) string { return `{"action":"accept"}` })
				if len(asked) != 2 || outcome(m) != "done" {
					t.Errorf("asked %v: %s", asked, m.Text)
				}
				return
			}
			x, err := c.Send(deadline(t), "tools/call", `{"name":"up__do"}`)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			first, err := x.Next()
			if err != nil {
				t.Fatal(err)
			}
			if revision == "2025-06-18" {
				if first.Method != "" || outcome(first) != "error -32603" {
					t.Errorf("the answer is %s", first.Text)
				}
				return
			}
			var id string
			if first.Method != "elicitation/create" || !first.Param("elicitationId", &id) || id == "" {
				t.Fatalf("asked %s", first.Text)
			}
			if err := c.Answer(deadline(t), first.ID, `{"action":"accept"}`); err != nil {
				t.Fatal(err)
			}
			m, err := x.Response()
			if err != nil || outcome(m) != "done" {
				t.Errorf("%s %v", m.Text, err)
			}
			if len(x.Before) != 1 || x.Before[0].Method != "notifications/elicitation/complete" ||
				!strings.Contains(x.Before[0].Text, id) {
				t.Errorf("before it came %v, want just that the user is done", x.Before)
			}
		})
	}
}

// getStreams opens the GET streams of stateful clients.
func getStreams(t *testing.T, revision string, clients ...*mcptest.Client) (streams []*mcptest.Exchange) {
	t.Helper()
	if revision == stateless {
		return nil
	}
	for _, c := range clients {
		x, err := c.Get(deadline(t), "")
		if err != nil || x.Status != 200 {
			t.Fatalf("%+v %v", x, err)
		}
		t.Cleanup(x.Close)
		streams = append(streams, x)
	}
	return streams
}

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// elicitOf returns the params of a question whose answer identifies it.
func elicitOf(message string) string {
	return fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"m":{"type":"string"}}}}`, message)
}

// TestQuestionsOfSeveralCalls: over stdio and HTTP+SSE a question does not name its call. While several
// calls run, it is put in the newest one, and its answer reaches the call that asked.
func TestQuestionsOfSeveralCalls(t *testing.T) {
	t.Parallel()
	for _, over := range []string{overStdio, overSSE} {
		for _, revision := range []string{statefulClient, stateless} {
			t.Run(revision+" over "+over, func(t *testing.T) {
				t.Parallel()
				s := newActor(t, party{statefulServer, over})
				url := start(t, gateway.Config{
					HTTP:      front.Config{StreamAfter: 10 * time.Millisecond},
					Upstreams: []upstream.Config{s.config(t)},
				})
				c := rawWith(t, url, revision, askable)
				do := func(key string) string {
					return fmt.Sprintf(`{"name":%q,"arguments":{"key":%q}}`, s.name+"__do", key)
				}
				echo := func(q inquiry) string {
					var params struct{ Message string }
					if err := json.Unmarshal([]byte(q.Params), &params); err != nil {
						t.Error(err)
					}
					return fmt.Sprintf(`{"action":"accept","content":{"m":%q}}`, unvoiced(params.Message))
				}
				ask := func(call *mcptest.Call, message string, sent chan<- string) {
					answer := call.Asking("elicitation/create", elicitOf(message))
					if sent != nil {
						close(sent)
					}
					m, err := answer()
					var got string
					if err == nil && !m.Value("content|m", &got) {
						got = m.Text
					}
					call.Text(got)
				}

				// busy makes a call that asks nothing and runs until over is closed.
				busy := func(t *testing.T, over <-chan string) *mcptest.Exchange {
					began := make(chan string, 1)
					key := s.put(t, func(call *mcptest.Call) {
						began <- ""
						select {
						case <-over:
						case <-call.Done():
						}
						call.Text("worked")
					})
					x, err := c.Send(deadline(t), "tools/call", do(key))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(x.Close)
					receive(t, "the other call's start", began)
					return x
				}

				t.Run("one asks", func(t *testing.T) {
					asked := make(chan string)
					x := busy(t, asked)
					asking := s.put(t, func(call *mcptest.Call) { ask(call, "which?", asked) })
					if m, questions := converse(t, c, "tools/call", do(asking), echo); !strings.Contains(m.Text, `"which?"`) ||
						len(questions) != 1 {
						t.Errorf("after %v: %s", questions, m.Text)
					}
					if m, err := x.Response(); err != nil || !strings.Contains(m.Text, "worked") || len(x.Before) > 0 {
						t.Errorf("the other call: %s, before it %v, %v", m.Text, x.Before, err)
					}
				})
				t.Run("each asks", func(t *testing.T) {
					var began sync.WaitGroup
					began.Add(3)
					var all sync.WaitGroup
					for i := range 3 {
						message := fmt.Sprint("number ", i)
						key := s.put(t, func(call *mcptest.Call) {
							began.Done()
							began.Wait()
							ask(call, message, nil)
						})
						all.Go(func() {
							// It is not known which call gets which question; each answer
							// reaches its own question.
							if m, questions := converse(t, c, "tools/call", do(key), echo); !strings.Contains(m.Text,
								`"text":"`+message+`"`) {
								t.Errorf("%s: after %v: %s", message, questions, m.Text)
							}
						})
					}
					all.Wait()
				})
				if !c.Revision.Stateful { // has the question in an answer, which cannot be taken back
					return
				}
				t.Run("an older one asks", func(t *testing.T) {
					began, asks, asked, ended := make(chan string), make(chan string), make(chan string), make(chan string)
					asking := s.put(t, func(call *mcptest.Call) {
						close(began)
						<-asks
						ask(call, "which?", asked)
					})
					var all sync.WaitGroup
					all.Go(func() { // the other call has ended: the question comes again
						m, questions := converse(t, c, "tools/call", do(asking), echo)
						if !strings.Contains(m.Text, `"which?"`) || len(questions) != 1 {
							t.Errorf("after %v: %s", questions, m.Text)
						}
					})
					receive(t, "the first call", began)
					busy(t, ended)
					close(asks)
					receive(t, "the question", asked)
					close(ended)
					all.Wait()
				})
				t.Run("who asked has left", func(t *testing.T) {
					left, done, asked := make(chan string, 1), make(chan string), make(chan string)
					x := busy(t, done)
					asking := s.put(t, func(call *mcptest.Call) {
						ask(call, "never mind", asked)
						left <- ""
					})
					y, err := c.SendID(deadline(t), `"leaves"`, "tools/call", do(asking))
					if err != nil {
						t.Fatal(err)
					}
					receive(t, "its question", asked)
					if _, err := c.Notify(deadline(t), "notifications/cancelled", `{"requestId":"leaves"}`); err != nil {
						t.Fatal(err)
					}
					y.Close()
					receive(t, "the end of who asked", left)
					close(done)
					if m, err := x.Response(); err != nil || !strings.Contains(m.Text, "worked") || len(x.Before) > 0 {
						t.Errorf("the other call: %s, before it %v, %v", m.Text, x.Before, err)
					}
				})
			})
		}
	}
}

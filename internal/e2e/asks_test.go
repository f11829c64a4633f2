package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestNobodyIsAskedWhoDidNotSaySo: for a client without capabilities the call ends
// with an error, not with a question or a wait.
func TestNobodyIsAskedWhoDidNotSaySo(t *testing.T) {
	t.Parallel()
	url, _ := shared(t)
	for _, revision := range []string{statefulClient, stateless} {
		for _, p := range peers {
			t.Run(fmt.Sprintf("client %s, %s server over %s", revision, p.revision, p.transport), func(t *testing.T) {
				answer, before, err := raw(t, url, revision).Call(deadline(t), "tools/call", `{"name":"`+p.name+`__confirm"}`)
				if err != nil {
					t.Fatal(err)
				}
				var result struct {
					IsError    bool
					ResultType string
				}
				failed := answer.Error != nil || json.Unmarshal(answer.Result, &result) == nil && result.IsError
				if !failed || result.ResultType == "input_required" || len(before) > 0 {
					t.Errorf("%s after %d messages, want an error and nothing before", answer.Text, len(before))
				}
			})
		}
	}
}

// asker is a stateful server whose tool asks and returns the answer.
func asker(t *testing.T) *mcptest.Server {
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		var key string
		c.Param("arguments|key", &key)
		c.Progress(1)
		answer, err := c.Ask("elicitation/create",
			fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, key))
		if err != nil {
			return
		}
		c.Progress(2)
		if answer.Error != nil {
			c.Text(fmt.Sprintf("%s: error %d %s", key, answer.Error.Code, answer.Error.Message))
			return
		}
		var action string
		answer.Value("action", &action)
		c.Text(key + ": " + action)
	})
	return s
}

func TestQuestionsDoNotCross(t *testing.T) {
	t.Parallel()
	url := inFrontOf(t, asker(t))
	type side struct {
		client   *mcptest.Client
		exchange *mcptest.Exchange
		question mcptest.Message
	}
	sides := map[string]*side{"a": {}, "b": {}}
	for key, s := range sides {
		s.client = rawWith(t, url, statefulClient, `{"elicitation":{}}`)
		var err error
		if s.exchange, err = s.client.SendID(deadline(t), "1", "tools/call", do(key, `{"progressToken":1}`)); err != nil {
			t.Fatal(err)
		}
		defer s.exchange.Close()
		if s.question, err = s.exchange.Until("elicitation/create"); err != nil {
			t.Fatal(err)
		}
		var message string
		if s.question.Param("message", &message); message != "up asks: "+key {
			t.Errorf("%s was asked %q", key, message)
		}
	}
	// An answer from the other session with this question's id must not count.
	if err := sides["a"].client.Answer(deadline(t), json.RawMessage(`"made up"`), `{"action":"accept"}`); err != nil {
		t.Logf("an answer to no question: %v", err)
	}
	for key, action := range map[string]string{"b": "accept", "a": "decline"} {
		s := sides[key]
		if err := s.client.Answer(deadline(t), s.question.ID, `{"action":"`+action+`"}`); err != nil {
			t.Fatal(err)
		}
		answer, err := s.exchange.Response()
		if err != nil || said(answer) != key+": "+action {
			t.Errorf("%s got %s, %v", key, answer.Text, err)
		}
		if n := len(s.exchange.Before); n != 2 {
			t.Errorf("%s saw %d progress notifications, want one before and one after the question: %s", key, n,
				s.exchange.Before)
		}
	}
}

func TestAClientRefusesToAnswer(t *testing.T) {
	c := rawWith(t, inFrontOf(t, asker(t)), statefulClient, `{"elicitation":{}}`)
	x, err := c.Send(deadline(t), "tools/call", do("a", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	question, err := x.Until("elicitation/create")
	if err != nil {
		t.Fatal(err)
	}
	refusal, err := c.Post(deadline(t), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"not now"}}`,
		question.ID))
	if err != nil || refusal.Status != 202 {
		t.Fatalf("refusing: %+v, %v", refusal, err)
	}
	refusal.Close()
	answer, err := x.Response()
	if err != nil || said(answer) != "a: error -1 not now" {
		t.Errorf("%s, %v", answer.Text, err)
	}
}

// TestARetryIsBoundToItsCall uses the state of one question with another call.
func TestARetryIsBoundToItsCall(t *testing.T) {
	url, _ := shared(t)
	c := rawWith(t, url, stateless, `{"elicitation":{"form":{}}}`)
	asked, _, err := c.Call(deadline(t), "tools/call", `{"name":"new-http__confirm","arguments":{}}`)
	var state, kind string
	if err != nil || !asked.Value("resultType", &kind) || kind != "input_required" ||
		!asked.Value("requestState", &state) {
		t.Fatalf("%s, %v", asked.Text, err)
	}
	var questions map[string]json.RawMessage
	asked.Value("inputRequests", &questions)
	var key string
	for key = range questions {
	}
	retry := func(tool, state string) mcptest.Message {
		t.Helper()
		answer, _, err := c.Call(deadline(t), "tools/call", fmt.Sprintf(
			`{"name":%q,"arguments":{},"requestState":%q,"inputResponses":{%q:{"action":"accept","content":{"reason":"r"}}}}`,
			tool, state, key))
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for name, answer := range map[string]mcptest.Message{
		"another tool":     retry("new-http__sample", state),
		"another upstream": retry("old-http__confirm", state),
		"a changed state":  retry("new-http__confirm", "A"+state),
	} {
		if answer.Error == nil || answer.Error.Code != -32602 {
			t.Errorf("%s: %s, want -32602", name, answer.Text)
		}
	}
	if got := said(retry("new-http__confirm", state)); got != "accept because r" {
		t.Errorf("the right one: %q", got)
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// holding makes a tool that returns its argument when the test releases it.
func holding(s *mcptest.Server) (started chan string, release map[string]chan struct{}) {
	started = make(chan string, 10)
	release = map[string]chan struct{}{}
	for _, key := range []string{"a", "b"} {
		release[key] = make(chan struct{})
	}
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		var key string
		c.Param("arguments|key", &key)
		started <- key
		select {
		case <-release[key]:
			c.Progress(1)
			c.Text(key)
		case <-c.Done():
			started <- "cancelled " + key
		}
	})
	return started, release
}

func do(key, meta string) string {
	return fmt.Sprintf(`{"name":"up__do","arguments":{"key":%q},"_meta":%s}`, key, meta)
}

func said(m mcptest.Message) string {
	var content []struct{ Text string }
	if !m.Value("content", &content) || len(content) == 0 {
		return m.Text
	}
	return content[0].Text
}

func TestEqualIdsAndTokensDoNotMix(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{statefulServer, stateless} {
		for _, clients := range []string{statefulClient, stateless} {
			t.Run("server "+revision+" clients "+clients, func(t *testing.T) {
				s := scripted(t, revision)
				started, release := holding(s)
				url := inFrontOf(t, s)
				exchanges := map[string]*mcptest.Exchange{}
				got := map[string]chan *mcptest.Exchange{"a": make(chan *mcptest.Exchange, 1), "b": make(chan *mcptest.Exchange, 1)}
				for _, key := range []string{"a", "b"} {
					c := raw(t, url, clients)
					go func() {
						x, err := c.SendID(deadline(t), "1", "tools/call", do(key, `{"progressToken":"same"}`))
						if err != nil {
							t.Error(err)
						}
						got[key] <- x
					}()
					receive(t, "the start of "+key, started)
				}
				close(release["b"]) // the later one first
				close(release["a"])
				for _, key := range []string{"b", "a"} {
					x := receive(t, "the answer of "+key, got[key])
					exchanges[key] = x
					answer, err := x.Response()
					if err != nil || said(answer) != key || string(answer.ID) != "1" {
						t.Errorf("%s got %s, %v", key, answer.Text, err)
					}
					if len(x.Before) != 1 || x.Before[0].Method != "notifications/progress" {
						t.Errorf("%s got %d messages before, want its one progress", key, len(x.Before))
						continue
					}
					var token string
					if x.Before[0].Param("progressToken", &token); token != "same" {
						t.Errorf("%s: progress with the token %q", key, token)
					}
					x.Close()
				}
				var tokens []string
				for _, call := range s.Received("tools/call") {
					var token json.RawMessage
					call.Param("_meta|progressToken", &token)
					tokens = append(tokens, call.Session+string(token)+string(call.ID))
				}
				if len(tokens) != 2 || tokens[0] == tokens[1] {
					t.Errorf("the server cannot tell the calls apart: %q", tokens)
				}
			})
		}
	}
}

// TestAnIdReusedInFlight: the gateway uses ids of its own with the server. Each call
// gets its own answer, the later call first.
func TestAnIdReusedInFlight(t *testing.T) {
	s := scripted(t, statefulServer)
	started, release := holding(s)
	c := raw(t, inFrontOf(t, s), statefulClient)
	answers := make(chan mcptest.Message, 2)
	for _, key := range []string{"a", "b"} {
		go func() {
			x, err := c.SendID(deadline(t), "1", "tools/call", do(key, "{}"))
			if err != nil {
				t.Error(err)
				return
			}
			defer x.Close()
			answer, err := x.Response()
			if err != nil {
				t.Error(err)
			}
			answers <- answer
		}()
		if got := receive(t, "the start of "+key, started); got != key {
			t.Fatalf("%q has begun, not %s", got, key)
		}
	}
	for _, key := range []string{"b", "a"} {
		close(release[key])
		if m := receive(t, "an answer", answers); said(m) != key || string(m.ID) != "1" {
			t.Errorf("the call %s got %s", key, m.Text)
		}
	}
}

func TestCancellationIsPerSession(t *testing.T) {
	s := scripted(t, statefulServer)
	started, release := holding(s)
	url := inFrontOf(t, s)
	mine, other := raw(t, url, statefulClient), raw(t, url, statefulClient)
	answers := make(chan mcptest.Message, 1)
	go func() {
		x, err := mine.SendID(deadline(t), `"mine"`, "tools/call", do("a", "{}"))
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		answer, err := x.Response()
		if err != nil {
			t.Error(err)
		}
		answers <- answer
	}()
	receive(t, "the start", started)
	for who, params := range map[*mcptest.Client]string{other: `{"requestId":"mine"}`, mine: `{"requestId":"nobody's"}`} {
		status, err := who.Notify(deadline(t), "notifications/cancelled", params)
		if err != nil || status != 202 {
			t.Errorf("%s: status %d, %v, want 202", params, status, err)
		}
	}
	close(release["a"])
	if got := said(receive(t, "the answer", answers)); got != "a" {
		t.Errorf("the call got %q", got)
	}
	if n := len(s.Received("notifications/cancelled")); n > 0 {
		t.Errorf("%d cancellations reached the server", n)
	}
}

func TestAClientGoesAwayInMidCall(t *testing.T) {
	t.Run("stateless: that cancels", func(t *testing.T) {
		s := scripted(t, stateless)
		started, _ := holding(s)
		c := raw(t, inFrontOf(t, s), stateless)
		x := make(chan *mcptest.Exchange, 1)
		ctx := deadline(t)
		gone, leave := context.WithCancel(ctx)
		go func() {
			got, _ := c.Send(gone, "tools/call", do("a", "{}"))
			x <- got
		}()
		receive(t, "the start", started)
		leave()
		if got := receive(t, "the cancellation", started); got != "cancelled a" {
			t.Error(got)
		}
		receive(t, "the end", x)
	})
	t.Run("stateful: it runs on, and the answer waits", func(t *testing.T) {
		s := scripted(t, statefulServer)
		s.Tools("do")
		release := make(chan struct{})
		s.Tool("do", func(c *mcptest.Call) {
			c.Progress(1)
			select {
			case <-release:
				c.Text("kept")
			case <-c.Done():
			}
		})
		c := raw(t, inFrontOf(t, s), statefulClient)
		x, err := c.Send(deadline(t), "tools/call", do("a", `{"progressToken":1}`))
		if err != nil {
			t.Fatal(err)
		}
		progress, err := x.Until("notifications/progress")
		if err != nil || progress.EventID == "" {
			t.Fatalf("%s with the event id %q, %v", progress.Text, progress.EventID, err)
		}
		x.Close()
		again, err := c.Get(deadline(t), progress.EventID)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		close(release)
		answer, err := again.Response()
		if err != nil || said(answer) != "kept" {
			t.Errorf("after resuming: %s, %v", answer.Text, err)
		}
		if len(again.Before) > 0 {
			t.Errorf("what was seen already came again: %s", again.Before[0].Text)
		}
	})
}

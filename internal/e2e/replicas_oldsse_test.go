package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestReplicasOldSSE: one replica has the HTTP+SSE stream, and the client's messages arrive
// at any of them.
func TestReplicasOldSSE(t *testing.T) {
	t.Parallel()
	began, left := make(chan string, 1), make(chan string, 1)
	server := scripted(t, statefulServer)
	server.Tools("echo", "ask", "wait")
	server.On("tools/call", func(c *mcptest.Call) {
		var name, text string
		c.Param("name", &name)
		c.Param("arguments|text", &text)
		switch name {
		case "ask":
			answer, err := c.Ask("sampling/createMessage", `{"messages":[],"maxTokens":1}`)
			if err == nil {
				answer.Value("result|content|text", &text)
				answer.Value("content|text", &text)
			}
		case "wait":
			began <- ""
			c.Hang()
			left <- ""
			return
		}
		c.Result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text))
	})
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "one", URL: server.URL})
	})
	c, err := mcptest.OpenSSE(t.Context(), ownClient(t), ssePath(r.url), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if answer, err := c.Begin(deadline(t), "2024-11-05", `{"sampling":{}}`); err != nil || answer.Error != nil {
		t.Fatal(answer.Text, err)
	}

	long := strings.Repeat("x", 200<<10) // too long for a channel
	for i := range 6 {
		text := fmt.Sprint(i)
		if i == 5 {
			text = long
		}
		answer, err := c.Call(deadline(t), "tools/call", fmt.Sprintf(`{"name":"one__echo","arguments":{"text":%q}}`, text))
		if err != nil || !strings.Contains(answer.Text, fmt.Sprintf(`"text":%q`, text)) {
			t.Errorf("call %d: %.200s %v", i, answer.Text, err)
		}
	}

	if err := c.Send(deadline(t), `"q"`, "tools/call", `{"name":"one__ask"}`); err != nil {
		t.Fatal(err)
	}
	question, err := c.Until("sampling/createMessage")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Answer(deadline(t), question.ID,
		`{"role":"assistant","model":"m","content":{"type":"text","text":"yes"}}`); err != nil {
		t.Fatal(err)
	}
	if answer, err := c.Answered(`"q"`); err != nil || !strings.Contains(answer.Text, `"text":"yes"`) {
		t.Errorf("after the question: %s %v", answer.Text, err)
	}

	if err := c.Send(deadline(t), `"w"`, "tools/call", `{"name":"one__wait"}`); err != nil {
		t.Fatal(err)
	}
	receive(t, "the call's start", began)
	if err := c.Notify(deadline(t), "notifications/cancelled", `{"requestId":"w"}`); err != nil {
		t.Fatal(err)
	}
	receive(t, "the call's end", left)

	for what, tt := range map[string]struct{ body, query string }{
		"malformed":      {`{"jsonrpc":"2.0","id":1,`, ""},
		"another stream": {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "0"},
	} {
		var first string
		for i, replica := range r.urls {
			status, text := postTo(t, strings.TrimSuffix(replica, "/mcp")+c.Endpoint+tt.query, tt.body)
			got := fmt.Sprint(status, " ", text)
			if i == 0 {
				first = got
			}
			if status/100 != 4 || got != first {
				t.Errorf("%s: replica %d answers %s, the first %s", what, i, got, first)
			}
		}
	}
}

// postTo posts a message to an HTTP+SSE address.
func postTo(t *testing.T, address, body string) (status int, text string) {
	t.Helper()
	c := &mcptest.SSEClient{Messages: address, HTTP: ownClient(t)}
	x, err := c.Post(deadline(t), body, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	return x.Status, x.Text()
}

// TestReplicasOldSDK: a go-sdk client of HTTP+SSE that knows nothing of replicas.
func TestReplicasOldSDK(t *testing.T) {
	t.Parallel()
	peer, stop := serve(newPeer(statefulServer, func(string) {}), false)
	defer stop()
	r := replicated(t, func(cfg *gateway.Config) {
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: "peer", URL: peer})
	})
	c := connectSSE(t, r.url, statefulServer)
	for i := range 6 {
		text := fmt.Sprint("hello ", i)
		if got := c.text(t, "peer__echo", map[string]any{"text": text}); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

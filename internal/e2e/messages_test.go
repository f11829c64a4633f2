package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// TestMessagesOutsideOfCalls: what a server logs in a client's own session when no call runs is heard
// on the stream of that client's session, as hooks leave it, and from the client's level on.
func TestMessagesOutsideOfCalls(t *testing.T) {
	t.Parallel()
	s := scripted(t, statefulServer)
	s.Offers(`{"logging":{},"resources":{"subscribe":true}}`)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"uri":"test://r","name":"r"}]}`) })
	for _, method := range []string{"resources/subscribe", "logging/setLevel"} {
		s.On(method, func(c *mcptest.Call) { c.Result(`{}`) })
	}
	of := func(upstream string) []string { return []string{"tools:" + upstream + "/*"} }
	address, err := s.ListenLines()
	if err != nil {
		t.Fatal(err)
	}
	common := upstream.Config{Name: "common", Command: []string{os.Args[0], linesCommand, address}, Shared: true}
	url := start(t, gateway.Config{
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}, common},
		Hooks: hooks.Config{
			{Name: "hides", What: of("up"), Redact: &hooks.Redact{Patterns: []string{"secret"}}},
			{Name: "refuses", What: of("up"), Refuse: &hooks.Refuse{Patterns: []string{"forbidden"}}},
			{Name: "others", What: of("common"), Refuse: &hooks.Refuse{Patterns: []string{"hello"}}},
		},
	})
	clients := []*mcptest.Client{raw(t, url, statefulClient), raw(t, url, statefulServer)}
	var streams []*mcptest.Exchange
	for _, c := range clients {
		stream, err := c.Get(deadline(t), "")
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		streams = append(streams, stream)
		mustCall(t, c, "resources/subscribe", `{"uri":"up+test://r"}`) // so it listens
		for _, upstream := range []string{"up", "common"} {
			mustCall(t, c, "tools/call", `{"name":"`+upstream+`__do"}`)
		}
	}
	if err := s.AwaitGETStreams(deadline(t), len(clients)+1); err != nil {
		t.Fatal(err)
	}
	hears := func(who int, text string) {
		t.Helper()
		m, err := streams[who].Until("notifications/message")
		var logger, data string
		if m.Param("logger", &logger); err != nil || !m.Param("data", &data) || logger != "up/db" || data != text {
			t.Errorf("client %d heard %s, want %q of up: %v", who, m.Text, text, err)
		}
	}
	say := func(level, text string) {
		s.Push("notifications/message", fmt.Sprintf(`{"level":%q,"logger":"db","data":%q}`, level, text))
	}
	say("info", "forbidden")
	say("info", "hello, secret")
	hears(0, "hello, [redacted]")
	hears(1, "hello, [redacted]")
	mustCall(t, clients[0], "logging/setLevel", `{"level":"error"}`)
	say("info", "quiet")
	say("error", "loud")
	hears(0, "loud")
	hears(1, "quiet")
	hears(1, "loud")
	stream := streams[0]
	again, err := clients[0].Get(deadline(t), stream.LastEventID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	say("error", "later")
	m, err := again.Until("notifications/message")
	if err != nil || !strings.Contains(m.Text, "later") {
		t.Errorf("after the stream was resumed: %s %v", m.Text, err)
	}
}

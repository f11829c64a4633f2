package e2e

import (
	"fmt"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// TestRetriesAreNotCached reads a resource whose server asks first and marks its
// answers as public: each retry still reaches the server.
func TestRetriesAreNotCached(t *testing.T) {
	s := scripted(t, stateless)
	s.On("resources/list", func(c *mcptest.Call) { c.Result(`{"resources":[{"uri":"doc://1","name":"one"}]}`) })
	s.On("resources/read", func(c *mcptest.Call) {
		var action string
		if !c.Param("inputResponses|q|action", &action) {
			c.Result(`{"resultType":"input_required","requestState":"s","ttlMs":3600000,"cacheScope":"public",` +
				`"inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`)
			return
		}
		c.Result(`{"contents":[{"uri":"doc://1","text":"` + action + `"}],"ttlMs":3600000,"cacheScope":"public"}`)
	})
	c := rawWith(t, inFrontOf(t, s), stateless, `{"elicitation":{}}`)
	read := func(rest string) mcptest.Message {
		t.Helper()
		m, _, err := c.Call(deadline(t), "resources/read", `{"uri":"up+doc://1"`+rest+`}`)
		if err != nil || m.Error != nil {
			t.Fatalf("%s, %v", m.Text, err)
		}
		return m
	}
	for range 2 {
		var state string
		if m := read(""); !m.Value("requestState", &state) {
			t.Fatalf("not asked: %s", m.Text)
		}
		for _, action := range []string{"accept", "decline"} {
			m := read(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q":{"action":%q}}`, state, action))
			var contents []struct{ Text string }
			if !m.Value("contents", &contents) || len(contents) != 1 || contents[0].Text != action {
				t.Errorf("%s: %s", action, m.Text)
			}
		}
	}
	if n := len(s.Received("resources/read")); n != 6 {
		t.Errorf("%d requests reached the server, want 6", n)
	}
}

// TestASessionsLevelAtAStatelessServer sets the level of a session once.
func TestASessionsLevelAtAStatelessServer(t *testing.T) {
	s := scripted(t, stateless)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) { c.Text("done") })
	url := inFrontOf(t, s)
	c, other := raw(t, url, statefulClient), raw(t, url, statefulClient)
	if m, _, err := c.Call(deadline(t), "logging/setLevel", `{"level":"error"}`); err != nil || m.Error != nil {
		t.Fatalf("%s, %v", m.Text, err)
	}
	for _, from := range []*mcptest.Client{c, c, other} {
		if m, _, err := from.Call(deadline(t), "tools/call", `{"name":"up__do"}`); err != nil || m.Error != nil {
			t.Fatalf("%s, %v", m.Text, err)
		}
	}
	for i, want := range []string{"error", "error", ""} {
		var level string
		if s.Received("tools/call")[i].Param("_meta|io.modelcontextprotocol/logLevel", &level); want != "" && level != want ||
			want == "" && level == "error" {
			t.Errorf("call %d has the level %q, want %q", i, level, want)
		}
	}
	if n := len(s.Received("logging/setLevel")); n > 0 {
		t.Errorf("the server got %d requests that its revision does not have", n)
	}
}

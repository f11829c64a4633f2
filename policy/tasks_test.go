package policy

import (
	"context"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// TestTasksOfTools: one decision serves a tool and the tasks that it made. What
// happens to a task of a tool that its user may not see is what happens to none.
func TestTasksOfTools(t *testing.T) {
	s := newShelves(tool("u", "open"), tool("u", "secret"), tool("u", "sometimes"), tool("u", "asked"))
	for _, name := range []string{"open", "secret", "sometimes", "asked"} {
		s.targets[mcp.KindTask+" id of "+name] = tool("u", name)
	}
	h := guardForTest(t, Config{Rules: []Rule{
		{Name: "a", Allow: []string{"tools:u/open"}},
		{Name: "b", Allow: []string{"tools:u/sometimes"}, When: `args.x == 1`},
		{Name: "c", Allow: []string{"tools:u/asked"}, Ask: []string{"tools:u/asked"}},
	}}, s)
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel,
		mcp.MethodTasksResult} {
		for name, want := range map[string]mcp.Target{
			"id of open":      tool("u", "open"),
			"id of sometimes": tool("u", "sometimes"), // its call was decided on when it was made
			"id of asked":     tool("u", "asked"),     // and approved of
			"id of secret":    {},
			"no id":           {},
			"u__open":         {},
		} {
			s.calls = nil
			c := callOf(method, name, `{}`, user("alice"))
			c.Target = tool("u", "secret") // nobody but the guard says so
			if _, err := h.Handle(t.Context(), c); err != nil {
				t.Errorf("%s %s: %v", method, name, err)
			}
			if len(s.calls) != 1 || s.calls[0].Target != want {
				t.Errorf("%s %s: got through as %+v, want %+v", method, name, s.calls, want)
			} else if visible := s.calls[0].Visible; visible == nil || !visible("u") || visible("v") {
				t.Errorf("%s %s: the catalog is not told which upstreams the caller may know of", method, name)
			}
		}
	}
}

// TestRoundsOfTaskResults: decisions about a task are made in each round.
func TestRoundsOfTaskResults(t *testing.T) {
	s := newShelves(tool("u", "open"))
	s.targets[mcp.KindTask+" id"] = tool("u", "open")
	s.answer = func(c *mcp.Call) (*mcp.Reply, error) {
		if len(c.Round) > 0 {
			return &mcp.Reply{Result: mcp.Object("state", mcp.String(c.Round.Top().Value))}, nil
		}
		return &mcp.Reply{Ask: &mcp.Ask{Round: mcp.NewRound(mcp.FrameParked, "of the upstream"), Here: true}}, nil
	}
	h := guardForTest(t, Config{Default: DefaultAllow}, s)
	c := callOf(mcp.MethodTasksResult, "id", `{}`, user("alice"))
	reply, err := h.Handle(t.Context(), c)
	if err != nil || reply.Ask == nil || !reply.Ask.Here {
		t.Fatalf("got %+v, %v", reply, err)
	}
	again := c.Clone()
	again.Round = reply.Ask.Round
	if reply, err = h.Handle(t.Context(), again); err != nil || string(reply.Result) != `{"state":"of the upstream"}` {
		t.Errorf("the next round: %+v, %v", reply, err)
	}
	left, cancel := context.WithCancel(t.Context())
	cancel()
	s.calls = nil
	if _, _ = h.Handle(left, again); len(s.calls) != 1 || s.calls[0].Round.Top().Value != "of the upstream" ||
		s.calls[0].Target != tool("u", "open") {
		t.Errorf("of a caller who has left there came %+v", s.calls)
	}
	delete(s.targets, mcp.KindTask+" id")
	s.calls = nil
	if _, _ = h.Handle(t.Context(), again); s.reached() != nil {
		t.Errorf("got through: %v", s.reached())
	}
}

// TestTasksAreToldOfWhomTheyAreFor: whether a call that wants to be a task belongs to
// somebody who was told of tasks depends on which upstreams they may know of.
func TestTasksAreToldOfWhomTheyAreFor(t *testing.T) {
	s := newShelves(tool("u", "open"))
	h := guardForTest(t, Config{Rules: []Rule{{Name: "a", Allow: []string{"tools:u/open"}}}}, s)
	c := callOf(mcp.MethodToolsCall, "u__open", `{}`, user("alice"))
	c.Task = mcp.Raw(`{}`)
	if _, err := h.Handle(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if v := s.calls[0].Visible; v == nil || !v("u") || v("v") {
		t.Error("the catalog was not told what the caller may know of")
	}
}

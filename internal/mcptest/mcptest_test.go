package mcptest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

func TestMain(m *testing.M) { mcptest.VerifyMain(m) }

func pair(t *testing.T, revision string) (*mcptest.Client, *mcptest.Server) {
	t.Helper()
	server := mcptest.NewServer(wire.Lookup(revision))
	t.Cleanup(server.Close)
	client := mcptest.NewClient(server.URL, wire.Lookup(revision))
	if err := client.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestEachRevisionTalksToItself(t *testing.T) {
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			client, server := pair(t, revision)
			server.Tools("count")
			server.Tool("count", func(c *mcptest.Call) {
				for i := range 3 {
					c.Progress(i)
				}
				c.Text("three")
			})
			list, _, err := client.Call(t.Context(), "tools/list", "")
			var tools []struct{ Name string }
			if err != nil || !list.Value("tools", &tools) || len(tools) != 1 || tools[0].Name != "count" {
				t.Errorf("list %s, %v", list.Text, err)
			}
			answer, before, err := client.Call(t.Context(), "tools/call", `{"name":"count","_meta":{"progressToken":7}}`)
			if err != nil || len(before) != 3 {
				t.Fatalf("%d messages before %s, %v: want 3", len(before), answer.Text, err)
			}
			var token int
			if !before[0].Param("progressToken", &token) || token != 7 {
				t.Errorf("progress %s", before[0].Text)
			}
		})
	}
}

func TestServerAsksAndHearsCancellation(t *testing.T) {
	client, server := pair(t, "2025-11-25")
	server.On("tools/call", func(c *mcptest.Call) {
		answer, err := c.Ask("elicitation/create", `{"message":"?"}`)
		if err != nil {
			return
		}
		c.Notify("notifications/message", fmt.Sprintf(`{"level":"info","data":%s}`, answer.Result))
		c.Hang()
	})
	x, err := client.SendID(t.Context(), `"call"`, "tools/call", `{"name":"any"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	question, err := x.Until("elicitation/create")
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Answer(t.Context(), question.ID, `{"action":"accept"}`); err != nil {
		t.Fatal(err)
	}
	note, err := x.Until("notifications/message")
	var action string
	if err != nil || !note.Param("data|action", &action) || action != "accept" {
		t.Fatalf("%s, %v", note.Text, err)
	}
	if _, err := client.Notify(t.Context(), "notifications/cancelled", `{"requestId":"call"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Next(); err == nil {
		t.Error("something came after the cancellation")
	}
}

func TestGETStreamsGetWhatIsPushed(t *testing.T) {
	for _, c := range []struct{ name, revision string }{{"GET", "2025-06-18"}, {"listen", "2026-07-28"}} {
		t.Run(c.name, func(t *testing.T) {
			client, server := pair(t, c.revision)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var x *mcptest.Exchange
			var err error
			if c.name == "GET" {
				x, err = client.Get(ctx, "")
			} else {
				x, err = client.Send(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if err := server.AwaitGETStreams(ctx, 1); err != nil {
				t.Fatal(err)
			}
			server.Push("notifications/tools/list_changed", "{}")
			if _, err := x.Until("notifications/tools/list_changed"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	client, server := pair(t, "2025-06-18")
	server.On("tools/call", (*mcptest.Call).Die)
	if x, err := client.Send(t.Context(), "tools/call", "{}"); err == nil {
		t.Errorf("the connection died, and yet status %d", x.Status)
	}
	server.Forget()
	x, err := client.Send(t.Context(), "ping", "")
	if err != nil || x.Status != 404 {
		t.Errorf("a forgotten session: %v, %v, want 404", x, err)
	}
	x.Close()
	server.SetDown(true)
	if x, err = client.Send(t.Context(), "ping", ""); err != nil || x.Status != 503 {
		t.Errorf("down: %v, %v, want 503", x, err)
	}
	x.Close()
}

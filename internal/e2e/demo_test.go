package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/demo"
)

// startDemo starts the demo and its gateway, as the command does.
func startDemo(t *testing.T) (url string) {
	t.Helper()
	d, err := demo.Start(deadline(t), demo.Options{Executable: os.Args[0], Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	cfg, _, err := config.Parse("demo", d.Config())
	if err != nil {
		t.Fatal(err)
	}
	g, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return g.URL()
}

// TestDemoCommands runs the commands of the welcome text.
func TestDemoCommands(t *testing.T) {
	t.Parallel()
	stateless, stateful, err := demo.Curl(startDemo(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"stateless", stateless, []string{`"resultType":"complete"`, `"title":"Why a gateway"`, `notes+note://1`}},
		{"stateful", stateful, []string{`"progressToken":"curl"`, `"message":"shift traffic"`, `"staging":"1.4.0"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := exec.CommandContext(deadline(t), "sh", "-eu", "-c", c.script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("the output does not have %s:\n%s", want, out)
				}
			}
		})
	}
}

// TestDemoThroughTheGateway tries what the demo suggests.
func TestDemoThroughTheGateway(t *testing.T) {
	t.Parallel()
	url := startDemo(t)
	for _, revision := range []string{statefulClient, stateless} {
		t.Run(revision, func(t *testing.T) {
			c := connect(t, url, revision)
			if got := c.text(t, "notes__search", map[string]any{"query": "groceries"}); got != "Notes found: 1" {
				t.Errorf("notes: %q", got)
			}
			page, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: "handbook+file:///handbook/names.md"})
			if err != nil || !strings.Contains(page.Contents[0].Text, "# Names") {
				t.Errorf("handbook: %+v, %v", page, err)
			}
			badge, err := c.ReadResource(deadline(t), &sdk.ReadResourceParams{URI: "skill://playbooks/release/assets/badge.png"})
			if err != nil || len(badge.Contents[0].Blob) == 0 || badge.Contents[0].MIMEType != "image/png" {
				t.Errorf("playbooks: %+v, %v", badge, err)
			}
			var skills []string
			tools := map[string]string{}
			for _, s := range allSkills(t, raw(t, url, revision)) {
				skills = append(skills, s["name"].(string))
				checkSkill(t, s)
				checkEntry(t, s)
				tools[s["name"].(string)] = fmt.Sprint(s["dependencies"].(object)["tools"])
			}
			if want := []string{"playbooks__incident", "playbooks__release"}; !slices.Equal(skills, want) ||
				tools[want[0]] != "[ops__services notes__search notes__add]" {
				t.Errorf("skills %q that depend on %v", skills, tools)
			}
			uri := "ops+ops://services/billing"
			if err := c.Subscribe(deadline(t), &sdk.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			result, err := c.CallTool(deadline(t), &sdk.CallToolParams{Name: "ops__deploy", Arguments: map[string]any{
				"service": "billing", "version": "3.0.0", "environment": "production", "pace_ms": 0,
			}})
			if err != nil || result.IsError {
				t.Fatalf("deploy: %+v, %v", result, err)
			}
			if got, want := receive(t, "the question", c.asked), "ops asks: Deploy billing 3.0.0 to production?"; got != want {
				t.Errorf("asked %q, want %q", got, want)
			}
			if got := receive(t, "the update", c.updated); got != uri {
				t.Errorf("updated %s, want %s", got, uri)
			}
		})
	}
}

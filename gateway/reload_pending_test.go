package gateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// TestReloadPendingRestart: of a file with keys that only a restart can change, a reload takes the rest,
// and operators see what waits until it is taken back.
func TestReloadPendingRestart(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	upstreams := fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	const operators = "admin: {listen: \"127.0.0.1:0\", api: {loopback: viewer}}\n"
	c := startUnwatched(t, upstreams+operators)
	before := c.graph().cfg
	deny := upstreams + operators + "policy: {default: allow, rules: [{name: out, deny: [\"*:*\"]}]}\n"
	text := "listen: 127.0.0.1:1\n" + deny +
		"sessions: {max: 3}\nhttp: {streams_per_user: 7}\nconnections: {max: 9}\ntelemetry: {log: {level: debug, format: json}}\n"
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if c.graph().rules == nil || c.graph().cfg.Policy.Rules[0].Name != "out" {
		t.Error("the rule does not hold")
	}
	now := c.graph().cfg
	now.Policy, now.Telemetry = policy.Config{}, before.Telemetry
	if changed := config.ChangedSections(before, now); len(changed) > 0 {
		t.Errorf("a reload has changed %q", changed)
	}
	waiting := []string{"listen", "sessions", "http", "connections", "telemetry"}
	var paths []string
	for _, p := range c.ReloadStatus().Pending {
		paths = append(paths, p.Path)
		if !strings.Contains(c.log.String(), p.String()) || p.Line == 0 {
			t.Errorf("the log does not have %s", p)
		}
	}
	if !slices.Equal(paths, waiting) {
		t.Errorf("waiting are %q, want %q", paths, waiting)
	}
	if _, text := ask(t, c.AdminAddr().String(), "/readyz"); !strings.Contains(text,
		`"pending_restart":["listen","sessions","http","connections","telemetry"]`) {
		t.Errorf("/readyz: %s", text)
	}
	if n := numbersOf(t, c.Gateway); n["gatehouse_config_pending_restart"] != "5" {
		t.Errorf("the metric is %s", n["gatehouse_config_pending_restart"])
	}
	if _, text := ask(t, c.AdminAddr().String(), "/api/v1/config"); !strings.Contains(text,
		"listen: waits for a restart") {
		t.Errorf("the API: %s", text)
	}
	if status, text := ask(t, c.AdminAddr().String(), "/api/v1/findings"); status != http.StatusOK ||
		!strings.Contains(text, "wait for a restart: listen, sessions, http, connections, telemetry.") {
		t.Errorf("findings: %d %s", status, text)
	}
	c.reload(t, deny)
	if left := c.ReloadStatus().Pending; len(left) > 0 {
		t.Errorf("still waiting: %v", left)
	}
}

// TestReloadWithAMistakeOfATeam: the rest is taken, the team's server stays, and operators see why.
func TestReloadWithAMistakeOfATeam(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	head := "admin: {listen: \"127.0.0.1:0\", api: {loopback: viewer}}\n" +
		fmt.Sprintf("upstreams: [{name: up, url: %q}]\n", site.url)
	c := startUnwatched(t, head)
	team := filepath.Join(filepath.Dir(c.file), "crm.yaml")
	c.reload(t, head+"include: [crm.yaml]\nteams: [{name: crm, files: [crm.yaml], local: true}]\n")
	write := func(text string) {
		if err := os.WriteFile(team, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("upstreams: [{name: crm, url: %q}]\n", site.url))
	crm := c.graph().member("crm")
	write("upstreams: [\n")
	if crm == nil || c.graph().member("crm") != crm {
		t.Errorf("the server %v has become %v", crm, c.graph().member("crm"))
	}
	if n := numbersOf(t, c.Gateway); n["gatehouse_config_teams_refused"] != "1" {
		t.Errorf("the metric is %s", n["gatehouse_config_teams_refused"])
	}
	for path, want := range map[string]string{"/readyz": `"refused_teams":["crm"]`,
		"/api/v1/config": "the team crm keeps what it had", "/api/v1/findings": "the team crm keeps what it had"} {
		if _, text := ask(t, c.AdminAddr().String(), path); !strings.Contains(text, want) {
			t.Errorf("%s does not have %s: %s", path, want, text)
		}
	}
	write("upstreams: []\n")
	if c.graph().member("crm") != nil || len(c.ReloadStatus().Refused) > 0 {
		t.Errorf("mended: %v, %q", c.graph().member("crm"), c.ReloadStatus().Refused)
	}
}

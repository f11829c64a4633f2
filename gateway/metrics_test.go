package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// numbersOf returns all series of a gateway, as Prometheus receives them.
func numbersOf(t *testing.T, g *Gateway) map[string]string {
	t.Helper()
	status, text := ask(t, g.AdminAddr().String(), "/metrics")
	if status != 200 {
		t.Fatalf("a scrape is answered with %d: %s", status, text)
	}
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "gatehouse_") {
			i := strings.LastIndexByte(line, ' ')
			all[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return all
}

// TestCardinality: whatever clients make up adds no series and appears in none.
// gateway/observe has the same test with a hundred times as many.
func TestCardinality(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	c := startConfigured(t,
		fmt.Sprintf("admin: {listen: \"127.0.0.1:0\"}\nupstreams:\n- {name: up, url: %q}\nlimits:\n- {name: all, rate: 1/s, burst: 1}\n", site.url))
	attack := func(i int) {
		method := [...]string{mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodTasksGet,
			fmt.Sprintf("evil/method-%d", i)}[i%5]
		caller := mcp.NewCaller(mcp.Caller{Issuer: "https://evil", Subject: fmt.Sprintf("evil-%d", i),
			ClientID: fmt.Sprintf("evil-client-%d", i)})
		observed(t, c, &mcp.Call{
			ID: fmt.Sprint(i), Method: method, Name: fmt.Sprintf("up__evil-%d", i),
			Params: mcp.Raw(`{"name":"evil"}`), Caller: caller,
			Session: fmt.Sprintf("evil-%d:evil", i), Ephemeral: i%2 == 0, Notify: func(mcp.Event) {},
		})
	}
	for i := range 10 { // each method in each era
		attack(i)
	}
	before := numbersOf(t, c.Gateway)
	for i := range 1000 {
		attack(i)
	}
	after := numbersOf(t, c.Gateway)
	if len(after) > len(before) {
		for name := range after {
			if _, there := before[name]; !there {
				t.Errorf("%s is new", name)
			}
		}
	}
	for name := range after {
		if strings.Contains(name, "evil") {
			t.Errorf("%s has a client's words", name)
		}
	}
	if got := after[`gatehouse_calls_total{era="stateless",method="other",outcome="invalid"}`]; got != "101" {
		t.Errorf("%s calls of made-up methods are counted, want 101", got)
	}
}

// TestMetricsOfReloads: the metrics tell which file is in use, and those of removed upstreams
// and limits are dropped.
func TestMetricsOfReloads(t *testing.T) {
	site := newSite(t, true, one("work", saying("x")))
	head := "admin: {listen: \"127.0.0.1:0\"}\nupstreams:\n"
	text := func(name, limit string) string {
		return head + fmt.Sprintf("- {name: %s, url: %q}\nlimits:\n- {name: %s, rate: 1/s}\n", name, site.url, limit)
	}
	c := startUnwatched(t, text("first", "few"))
	has := func(what string, numbers map[string]string, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if numbers[name] != value {
				t.Errorf("%s: %s is %q, want %q", what, name, numbers[name], value)
			}
		}
	}
	revision := func() string {
		t.Helper()
		data, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])[:12]
	}
	n := numbersOf(t, c.Gateway)
	has("at the start", n, map[string]string{
		"gatehouse_config_info{revision=\"" + revision() + "\"}":                  "1",
		"gatehouse_config_last_reload_successful":                                 "1",
		"gatehouse_limit_refusals_total{limit=\"few\"}":                           "0",
		"gatehouse_upstream_state{state=\"ready\",upstream=\"first\"}":            "1",
		"gatehouse_upstream_failures_total{stage=\"connect\",upstream=\"first\"}": "0",
	})
	loaded := n["gatehouse_config_last_reload_success_timestamp_seconds"]

	held := revision()
	c.write(t, head+"- {name: first, url: nowhere}\n")
	if c.Reload() == nil {
		t.Fatal("a bad file was taken")
	}
	n = numbersOf(t, c.Gateway)
	has("after a bad file", n, map[string]string{
		"gatehouse_config_info{revision=\"" + held + "\"}":       "1",
		"gatehouse_config_last_reload_successful":                "0",
		`gatehouse_config_reloads_total{result="refused"}`:       "1",
		`gatehouse_config_reloads_total{result="ok"}`:            "0",
		"gatehouse_config_last_reload_success_timestamp_seconds": loaded,
	})

	c.write(t, text("second", "many"))
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	waitReady(t, c.Gateway)
	n = numbersOf(t, c.Gateway)
	has("after another file", n, map[string]string{
		"gatehouse_config_info{revision=\"" + revision() + "\"}":        "1",
		"gatehouse_config_last_reload_successful":                       "1",
		`gatehouse_config_reloads_total{result="refused"}`:              "1",
		`gatehouse_config_reloads_total{result="ok"}`:                   "1",
		"gatehouse_limit_refusals_total{limit=\"many\"}":                "0",
		"gatehouse_upstream_state{state=\"ready\",upstream=\"second\"}": "1",
	})
	for name := range n {
		if strings.Contains(name, "first") || strings.Contains(name, "few") {
			t.Errorf("%s is still there", name)
		}
	}
}

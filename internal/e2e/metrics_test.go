package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/clientele"
	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/hooks"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/largeresults"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/redistest"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// numbers are the values of a scrape, by metric and labels in alphabetical order, such as
// calls_total{era=stateful,method=tools/call,outcome=ok}. The value of a histogram is its
// count. The prefix gatehouse_ is left out.
type numbers struct {
	values   map[string]float64
	families map[string]*dto.MetricFamily
}

// scrape requests the metrics as Prometheus does.
func (g *guarded) scrape(t *testing.T) numbers {
	t.Helper()
	resp := g.operator(t, http.MethodGet, "/metrics", nil)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a scrape is answered with %d", resp.StatusCode)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	n := numbers{values: map[string]float64{}, families: families}
	for name, family := range families {
		short, ours := strings.CutPrefix(name, "gatehouse_")
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			if labels != nil {
				labels = []string{"{" + strings.Join(labels, ",") + "}"}
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if ours {
				n.values[short+strings.Join(labels, "")] = value
			}
		}
	}
	return n
}

// operator sends a request to the admin listener; change may be nil.
func (g *guarded) operator(t *testing.T, method, path string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(deadline(t), method, "http://"+g.served.AdminAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// want compares values. A negative one means any value above zero.
func (n numbers) want(t *testing.T, want map[string]float64) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, there := n.values[key]
		if !there || want[key] >= 0 && got != want[key] || want[key] < 0 && got <= 0 {
			t.Errorf("%s is %v (there: %t), want %v", key, got, there, want[key])
		}
	}
}

// everyWay is a scripted server with a tool for each way in which a call can end.
func everyWay(t *testing.T, revision string) *mcptest.Server {
	t.Helper()
	s := scripted(t, revision)
	s.Tools("good", "bad", "broken", "secret", "careful", "rare", "asks")
	s.On("tools/call", func(c *mcptest.Call) {
		var name string
		c.Param("name", &name)
		switch name {
		case "good":
			c.Text(strings.Repeat("good ", 1000))
		case "bad":
			c.Error(-32000, "no")
		case "broken":
			c.Status(http.StatusInternalServerError, "text/plain", "no")
		case "asks":
			_, _ = c.Ask("elicitation/create", `{"message":"Well?","requestedSchema":{"type":"object","properties":{}}}`)
			c.Text("done")
		default:
			c.Text("done")
		}
	})
	return s
}

const anyNumber = -1 // above zero

// TestMetrics: clients of both eras succeed and fail in every way, and the test checks the
// metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	brief := scripted(t, stateless)
	brief.Tools("plain")
	cfg := gateway.Config{
		Admin: config.Admin{Listen: "127.0.0.1:0"},
		Policy: policy.Config{Default: policy.DefaultAllow, Rules: []policy.Rule{
			{Name: "secrets", Deny: []string{"tools:*/secret"}},
			{Name: "care", Ask: []string{"tools:*/careful"}},
		}},
		Hooks: hooks.Config{{Name: "keys", Redact: &hooks.Redact{Secrets: []string{"jwt"}}}},
		Limits: policy.Limits{{Name: "once", What: []string{"tools:old/rare"},
			Rate: policy.Rate{Count: 1, Per: 24 * time.Hour}}},
		Upstreams: []upstream.Config{
			{Name: "old", URL: everyWay(t, statefulServer).URL, Results: largeresults.Settings{Inline: 1024}},
			{Name: "new", URL: everyWay(t, stateless).URL},
			{Name: "brief", URL: brief.URL, Disclosure: upstream.Disclosure{Mode: "progressive"}},
			{Name: "dead", URL: "http://127.0.0.1:1/mcp"},
			{Name: "books", Pinning: upstream.Pinning{Mode: pinning.Warn}, Skills: skillsDir(t, map[string]string{
				"fine/SKILL.md":   "---\nname: fine\ndescription: Is fine.\n---\nYes.\n",
				"broken/SKILL.md": "---\nname: another\n---\n",
			})},
		},
	}
	cfg.Views = []view.Config{{Name: "job", Show: []string{"tools:old/*"}}}
	cfg.Audit.Sinks = []audit.Sink{{Type: audit.TypeFile, Path: filepath.Join(t.TempDir(), "audit.jsonl")}}
	collector := mcptest.NewCollector()
	t.Cleanup(collector.Close)
	cfg.Tracing.Endpoint = collector.URL
	cfg.Pinning.File = filepath.Join(t.TempDir(), "gatehouse.lock")
	if err := os.WriteFile(cfg.Pinning.File, []byte(`{"version":1,"upstreams":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Sessions.Store, cfg.Replicas.Listen = "redis", "127.0.0.1:0"
	cfg.Sessions.Redis.URL = mcp.Secret(redistest.Start(t).URL())
	cfg.Sessions.Key = "0123456789abcdef0123456789abcdef"
	g := guard(t, cfg)

	for _, revision := range eras {
		c := g.raw(t, revision, g.issuer.Token(claims{"sub": "user of " + revision}))
		for _, tool := range []string{
			"old__good", "old__good", "old__bad", "old__broken", "old__secret", "old__nothing",
			"new__good", "new__good", "new__bad", "new__broken", "new__secret", "new__nothing",
			"old__rare", "old__rare", "old__careful", "brief__plain",
		} {
			if _, _, err := c.Call(deadline(t), "tools/call", fmt.Sprintf(`{"name":%q}`, tool)); err != nil {
				t.Fatalf("%s: %v", tool, err)
			}
		}
		mustCall(t, c, "tools/list", "")
		if c.Session != "" {
			if _, err := c.Delete(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	refusedRequests(t, g)
	n := g.scrape(t)
	for _, era := range []string{"stateful", "stateless"} {
		n.want(t, map[string]float64{
			"calls_total{era=" + era + ",method=tools/call,outcome=ok}":                             4 + 1 + 1,
			"calls_total{era=" + era + ",method=tools/call,outcome=invalid}":                        2 + 2,
			"calls_total{era=" + era + ",method=tools/call,outcome=not-approved}":                   1,
			"calls_total{era=" + era + ",method=tools/call,outcome=error}":                          2,
			"calls_total{era=" + era + ",method=tools/call,outcome=upstream}":                       2,
			"calls_total{era=" + era + ",method=tools/call,outcome=limited}":                        1,
			"calls_total{era=" + era + ",method=tools/call,outcome=internal}":                       0,
			"calls_total{era=" + era + ",method=tools/list,outcome=ok}":                             1,
			"call_duration_seconds{era=" + era + ",method=tools/call}":                              16,
			"calls_in_flight{era=" + era + "}":                                                      0,
			"upstream_calls_total{era=" + era + ",method=tools/call,outcome=ok,upstream=old}":       3,
			"upstream_calls_total{era=" + era + ",method=tools/call,outcome=ok,upstream=new}":       2,
			"upstream_calls_total{era=" + era + ",method=tools/call,outcome=error,upstream=new}":    1,
			"upstream_calls_total{era=" + era + ",method=tools/call,outcome=upstream,upstream=new}": 1,
			"upstream_call_duration_seconds{era=" + era + ",method=tools/call,upstream=old}":        5,
			"upstream_calls_total{era=" + era + ",method=tools/call,outcome=ok,upstream=brief}":     0,
		})
	}
	n.want(t, map[string]float64{
		"policy_decisions_total{effect=allow}":                       18,
		"policy_decisions_total{effect=ask}":                         2,
		"policy_decisions_total{effect=deny}":                        4,
		"policy_decisions_total{effect=unknown}":                     4,
		"policy_approvals_total{answer=impossible}":                  2,
		"limit_refusals_total{limit=once}":                           2,
		"refused_total{stage=policy}":                                4,
		"refused_total{stage=limits}":                                2,
		"refused_total{stage=disclosure}":                            2,
		"refused_total{stage=auth}":                                  2,
		"refused_total{stage=front}":                                 1,
		"http_refusals_total{status=415}":                            1,
		"http_refusals_total{status=400}":                            0,
		"auth_tokens_total{result=missing}":                          1,
		"auth_tokens_total{result=invalid}":                          1,
		"auth_tokens_total{result=verified}":                         3,
		"auth_tokens_total{result=cached}":                           anyNumber,
		"http_received_bytes_total":                                  anyNumber,
		"http_sent_bytes_total":                                      anyNumber,
		"upstream_sent_bytes_total{upstream=new}":                    anyNumber,
		"upstream_received_bytes_total{upstream=new}":                anyNumber,
		"sessions_opened_total{revision=2025-11-25}":                 1,
		"sessions_ended_total{cause=deleted}":                        1,
		"large_results_total{outcome=cut,upstream=old}":              4,
		"hook_runs_total{action=pass,hook=keys,on=results}":          anyNumber,
		"sessions_open":                                              0,
		"upstream_state{state=ready,upstream=old}":                   1,
		"upstream_state{state=down,upstream=old}":                    0,
		"upstream_state{state=down,upstream=dead}":                   1,
		"upstream_failures_total{stage=connect,upstream=dead}":       anyNumber,
		"upstream_failures_total{stage=call,upstream=old}":           2,
		"upstream_connects_total{result=ok,upstream=old}":            anyNumber,
		"upstream_dials_total{result=failed}":                        anyNumber,
		"upstream_connections_open":                                  anyNumber,
		"upstream_items{list=tools,upstream=old}":                    7,
		"skills_broken{upstream=books}":                              1,
		"skills_broken{upstream=old}":                                0,
		"audit_records_total{sink=file}":                             anyNumber,
		"audit_dropped_total{sink=file}":                             0,
		"audit_failures_total{sink=file}":                            0,
		"redis_up":                                                   1,
		"upstream_items_not_approved{upstream=books}":                1, // what is fine
		"redis_duration_seconds{operation=script}":                   anyNumber,
		"redis_errors_total{kind=unavailable}":                       0,
		"lease_renewals_total{result=late}":                          0,
		"replicas_unreachable":                                       0,
		"forwards_total{outcome=unreachable}":                        0,
		"homes_held":                                                 anyNumber,
		"config_last_reload_successful":                              1,
		"draining":                                                   0,
		"auth_keys{issuer=" + g.issuer.URL + "}":                     anyNumber,
		"auth_key_fetches_total{issuer=" + g.issuer.URL + "}":        anyNumber,
		"auth_issuer_state{issuer=" + g.issuer.URL + ",state=ready}": 1,
	})
	for _, name := range []string{"go_goroutines", "process_open_fds"} { // needs the second
		if n.families[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	parkedNumbers(t, g)
	job := *g
	job.url += "/job"
	mustCall(t, job.raw(t, stateless, g.issuer.Token(nil)), "tools/call", `{"name":"old__good"}`)
	n = g.scrape(t)
	if got := n.values["view_calls_total{outcome=ok,view=job}"]; got != 1 {
		t.Errorf("%v calls at the view", got)
	}
	maps.Copy(n.families, signInNumbers(t).families)
	maps.Copy(n.families, tlsNumbers(t).families)
	checkMetricsPage(t, n)
	maps.Copy(n.families, g.scrape(t).families) // those of the gateway with traffic come first
	checkAlerts(t, n)
}

// signInNumbers are those of a gateway where users sign in, for clients and for a server.
func signInNumbers(t *testing.T) numbers {
	t.Helper()
	s := scripted(t, stateless)
	s.Tools("a")
	remote := mcptest.NewAccounts(s)
	t.Cleanup(remote.Close)
	cfg := gateway.Config{
		Admin:     config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "up", URL: remote.URL, Auth: outbound.Config{Type: outbound.TypeUserOAuth}}},
	}
	cfg.Auth.Server = auth.ServerConfig{Enabled: true, ClientID: "gatehouse",
		Clients: []clientele.Fixed{{ID: "web", RedirectURIs: []string{"https://app.example/cb"}}}}
	cfg.Accounts.SignIn.ClientID = "pages"
	g := guard(t, cfg)
	g.issuer.LetSignIn(nil)
	p := &personal{urls: []string{g.url}, issuer: g.issuer, remote: remote}
	m, _, err := p.client(t, g.url, stateless, `{}`).Call(deadline(t), "tools/call", callA)
	if err != nil {
		t.Fatal(err)
	}
	p.wantSignedIn(t, regexp.MustCompile(`http://[^ "]+/account/sign-in/[^ "]+`).FindString(m.Text))
	r, err := http.NewRequestWithContext(deadline(t), http.MethodPost,
		strings.TrimSuffix(g.url, "/mcp")+"/oauth/token", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ownClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	n := g.scrape(t)
	n.want(t, map[string]float64{
		"accounts{state=ok,upstream=up}":                   1,
		"authserver_steps_total{result=refused,step=code}": 1,
	})
	return n
}

// tlsNumbers are those of a gateway with TLS.
func tlsNumbers(t *testing.T) numbers {
	t.Helper()
	cfg := gateway.Config{
		Admin:     config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "up", URL: scripted(t, stateless).URL}},
	}
	cfg.TLS.CertFile, cfg.TLS.KeyFile = mcptest.NewAuthority(t).Issue(t, "gateway", time.Hour)
	g, stop, err := run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return (&guarded{served: g}).scrape(t)
}

// refusedRequests sends requests that do not become calls.
func refusedRequests(t *testing.T, g *guarded) {
	t.Helper()
	for _, r := range []struct {
		header http.Header
		status int
	}{
		{http.Header{}, http.StatusUnauthorized},
		{http.Header{"Authorization": {"Bearer no.good.token"}}, http.StatusUnauthorized},
		{http.Header{"Authorization": {"Bearer " + g.issuer.Token(nil)}, "Content-Type": {"text/plain"}},
			http.StatusUnsupportedMediaType},
	} {
		c := unopened(t, g.url, stateless)
		c.Header = r.header
		x, err := c.Post(deadline(t), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if err != nil {
			t.Fatal(err)
		}
		if x.Close(); x.Status != r.status {
			t.Errorf("%v is answered with %d, want %d", r.header, x.Status, r.status)
		}
	}
}

// parkedNumbers checks the metrics while a call waits for its user.
func parkedNumbers(t *testing.T, g *guarded) {
	t.Helper()
	c := g.rawWith(t, statefulClient, g.issuer.Token(nil), `{"elicitation":{}}`)
	stream, err := c.Get(deadline(t), "")
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.Send(deadline(t), "tools/call", `{"name":"old__asks"}`)
	if err != nil {
		t.Fatal(err)
	}
	question, err := x.Until("elicitation/create")
	if err != nil {
		t.Fatal(err)
	}
	g.scrape(t).want(t, map[string]float64{
		"questions_open":                         1,
		"sessions_open":                          1,
		"session_calls_in_flight":                1,
		"session_streams_open":                   1,
		"streams_open":                           2,
		"upstream_calls_parked{upstream=old}":    1,
		"upstream_calls_in_flight{upstream=old}": 1,
		"upstream_sessions_open{upstream=old}":   anyNumber,
		"calls_in_flight{era=stateful}":          0,
	})
	if err := c.Answer(deadline(t), question.ID, `{"action":"accept","content":{}}`); err != nil {
		t.Fatal(err)
	}
	if m, err := x.Response(); err != nil || m.Error != nil {
		t.Fatalf("%s, %v", m.Text, err)
	}
	x.Close()
	stream.Close()
	after := g.scrape(t)
	after.want(t, map[string]float64{
		"calls_total{era=stateful,method=tools/call,outcome=ask}":                       0, // it is one call
		"calls_total{era=stateful,method=tools/call,outcome=ok}":                        7,
		"upstream_calls_total{era=stateful,method=tools/call,outcome=ask,upstream=old}": 1,
		"questions_open":                      0,
		"upstream_calls_parked{upstream=old}": 0,
	})
}

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(gatehouse_[a-z_]+)` \\|([^|]*)\\| (.+) \\|$")
	metricName = regexp.MustCompile("gatehouse_[a-z_]+")
	labelName  = regexp.MustCompile("`([a-z_]+)`")
)

// checkMetricsPage compares docs/metrics.md with the existing metrics, in both directions.
func checkMetricsPage(t *testing.T, n numbers) {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string][]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		labels := []string{}
		for _, l := range labelName.FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		told[row[1]] = labels
	}
	for name, family := range n.families {
		if !strings.HasPrefix(name, "gatehouse_") {
			continue
		}
		labels := []string{}
		for _, l := range family.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		if known, ok := told[name]; !ok {
			t.Errorf("docs/metrics.md does not tell of %s", name)
		} else if !slices.Equal(known, labels) {
			t.Errorf("docs/metrics.md says that %s has the labels %q, and it has %q", name, known, labels)
		}
		if !strings.HasSuffix(family.GetHelp(), ".") {
			t.Errorf("the help of %s is no sentence: %q", name, family.GetHelp())
		}
	}
	for _, name := range metricName.FindAllString(string(page), -1) { // in alerts too
		if n.families[name] == nil && n.families[strings.TrimSuffix(name, "_bucket")] == nil {
			t.Errorf("docs/metrics.md tells of %s, which there is not", name)
		}
	}
}

// TestOperatorsOnly: the admin listener serves metrics to whoever reaches it, but not
// to pages in a browser there. It serves nothing else, and no profiles.
func TestOperatorsOnly(t *testing.T) {
	s := doing(t)
	g := guard(t, gateway.Config{Admin: config.Admin{Listen: "127.0.0.1:0"},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	for _, a := range []struct {
		what, method, path string
		change             func(*http.Request)
		status             int
	}{
		{"the numbers", "GET", "/metrics", nil, 200},
		{"by name", "GET", "/metrics", func(r *http.Request) { r.Host = "localhost:9090" }, 200},
		{"by a name that a page has", "GET", "/metrics", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"from a page", "GET", "/metrics", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9090") }, 403},
		{"written to", "POST", "/metrics", nil, 405},
		{"another path", "GET", "/metrics/", nil, 404},
		{"profiles", "GET", "/debug/pprof/", nil, 404},
		{"a profile", "GET", "/debug/pprof/heap", nil, 404},
		{"variables", "GET", "/debug/vars", nil, 404},
	} {
		resp := g.operator(t, a.method, a.path, a.change)
		resp.Body.Close()
		if resp.StatusCode != a.status {
			t.Errorf("%s is answered with %d, want %d", a.what, resp.StatusCode, a.status)
		}
	}
	token := g.issuer.Token(nil)
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz", "/readyz"} {
		r, err := http.NewRequestWithContext(deadline(t), "GET", strings.TrimSuffix(g.url, "/mcp")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Close = true
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %d where clients are served", path, resp.StatusCode)
		}
	}
}

//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/gatehouse-mcp/gatehouse/internal/interop/rig"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
)

// panel is one of deploy/grafana/boards.yaml, with the name of its board.
type panel struct {
	board, Title string
	Of           string
	Rare         bool // may have no series
	Queries      [][2]string
}

// panels reads the panels of all boards.
func panels(t *testing.T, checkout rig.Checkout) (all []panel) {
	t.Helper()
	var source struct {
		Boards []struct {
			Name string
			Rows []struct{ Panels []panel }
		}
	}
	parse(t, checkout.Path("deploy", "grafana", "boards.yaml"), &source)
	for _, b := range source.Boards {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				p.board = b.Name
				all = append(all, p)
			}
		}
	}
	return all
}

// TestBoards runs the queries of the boards: a Prometheus scrapes two replicas with traffic and evaluates
// deploy/prometheus/alerts.yaml. Those of Loki are held to the lines of the replicas' logs.
func TestBoards(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	program := debian(t, checkout, "prometheus", "prometheus")
	r := startReplicas(t, checkout)
	prometheus := startPrometheus(t, program, checkout, r.admin)

	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	var logged string
	pending := map[string]panel{}
	for _, p := range panels(t, checkout) {
		for _, q := range p.Queries {
			if strings.Contains(q[0], "{$logs}") {
				logged += q[0] + "\n"
			} else {
				pending[q[0]] = p
			}
		}
	}
	why := map[string]string{} // a query has no series yet
	if err := prometheus.WaitFor(ctx, func(ctx context.Context) error {
		if err := r.traffic(ctx); err != nil {
			return err
		}
		for query, p := range pending {
			switch series, err := prometheus.query(ctx, query); {
			case err != nil:
				why[query] = err.Error()
			case series > 0 || p.Rare:
				delete(pending, query)
			default:
				why[query] = "no series"
			}
		}
		if len(pending) > 0 {
			return errors.New("queries have no answer")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for query, p := range pending {
		t.Errorf("%s: %s: %s: %s", p.board, p.Title, query, why[query])
	}
	prometheus.checkRules(t)
	r.checkLogged(t, logged)
}

// TestBoardsAreOfGrafana reads the boards with Grafana's own types.
func TestBoardsAreOfGrafana(t *testing.T) {
	checkout, err := rig.FindCheckout()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "grafana.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "grafana")
	source, err := txtar.FS(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(module, source); err != nil {
		t.Fatal(err)
	}
	reader, err := checkout.BuildOther(ctx, module, ".")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(checkout.Path("deploy", "grafana", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("boards are %q, %v", files, err)
	}
	if out, err := exec.CommandContext(ctx, reader, files...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// replicas are two gateways that share a Redis.
type replicas struct {
	gateways []rig.Gateway
	clients  []*mcptest.Client
	admin    []string
}

// startReplicas starts them, with a server that works, one that fails, and one that is away.
func startReplicas(t *testing.T, checkout rig.Checkout) *replicas {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), installLimit)
	defer cancel()
	gatehouse, err := checkout.Build(ctx, "./cmd/gatehouse")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{}
	address := mcptest.LoopbackAddress(t)
	redis, err := rig.StartRedis(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	l.own(t, "redis", redis)
	s := mcptest.NewServer(wire.Lookup(stateful))
	t.Cleanup(s.Close)
	s.Tools("good", "bad", "secret")
	s.On("tools/call", func(c *mcptest.Call) {
		var name string
		if c.Param("name", &name); name == "bad" {
			c.Status(http.StatusInternalServerError, "text/plain", "no")
			return
		}
		c.Text("done")
	})
	collector := mcptest.NewCollector()
	t.Cleanup(collector.Close)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.yaml")
	key, err := exec.CommandContext(ctx, gatehouse, "key", "new", "--file", keys, "--user", "alice").Output()
	if err != nil {
		t.Fatal(err)
	}
	r := &replicas{}
	token := strings.TrimSpace(string(key))
	for _, name := range []string{"one", "two"} {
		own := filepath.Join(dir, name)
		if err := os.Mkdir(own, 0o700); err != nil {
			t.Fatal(err)
		}
		lock := filepath.Join(own, "gatehouse.lock")
		if err := os.WriteFile(lock, []byte(`{"version":1,"upstreams":{}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		admin := mcptest.LoopbackAddress(t)
		g, err := rig.StartGateway(ctx, rig.GatewayConfig{Binary: gatehouse, Dir: own, Token: token,
			Env:  []string{"GOMEMLIMIT=1GiB"},
			Auth: fmt.Sprintf("{mode: keys, keys: {file: %s}}", keys),
			Sections: fmt.Sprintf(`
admin: {listen: "%s"}
replicas: {listen: "%s"}
sessions: {store: redis, redis: {url: "redis://%s/0"}, key: 0123456789abcdef0123456789abcdef}
telemetry: {log: {format: json}}
tracing: {endpoint: "%s"}
audit: {sinks: [{type: file, path: "%s"}]}
policy: {default: allow, rules: [{name: secrets, deny: ["tools:*/secret"]}]}
pinning: {file: "%s"}
upstreams:
  - {name: books, url: "%s", pinning: {mode: warn}}
  - {name: away, url: "http://127.0.0.1:1/mcp"}
`, admin, mcptest.LoopbackAddress(t), address, collector.URL, filepath.Join(own, "audit.jsonl"), lock, s.URL)})
		if err != nil {
			t.Fatal(err)
		}
		l.own(t, name, g.Process)
		if err := g.WaitTools(ctx, "books__good"); err != nil {
			t.Fatal(err)
		}
		for _, revision := range []string{stateful, stateless} {
			c := mcptest.NewClient(g.URL, wire.Lookup(revision))
			c.Header = http.Header{"Authorization": {"Bearer " + token}}
			if err := c.Open(ctx); err != nil {
				t.Fatal(err)
			}
			r.clients = append(r.clients, c)
		}
		r.gateways, r.admin = append(r.gateways, g), append(r.admin, admin)
	}
	return r
}

// traffic makes calls that end in several ways, at both replicas.
func (r *replicas) traffic(ctx context.Context) error {
	for _, c := range r.clients {
		for _, call := range []struct{ method, params string }{
			{"tools/list", ""}, {"tools/call", `{"name":"books__good"}`}, {"tools/call", `{"name":"books__bad"}`},
			{"tools/call", `{"name":"books__secret"}`},
		} {
			if _, _, err := c.Call(ctx, call.method, call.params); err != nil {
				return fmt.Errorf("%s %s: %w", call.method, call.params, err)
			}
		}
	}
	return nil
}

// checkLogged expects each attribute that queries of Loki name in some line on a call.
func (r *replicas) checkLogged(t *testing.T, queries string) {
	t.Helper()
	there := map[string]bool{}
	for _, g := range r.gateways {
		for line := range strings.Lines(g.Log()) {
			var attributes map[string]any
			if json.Unmarshal([]byte(line), &attributes) != nil || attributes["msg"] != "call" {
				continue // it is cut, or about something else
			}
			if attributes["user"] != "alice" {
				t.Errorf("a call of %v", attributes["user"])
			}
			for name := range attributes {
				there[name] = true
			}
		}
	}
	named := regexp.MustCompile(`\| (\w+)!?="|by \(([^)]*)\)|unwrap (\w+)|\{\{\.(\w+)\}\}`)
	checked := 0
	for _, m := range named.FindAllStringSubmatch(queries, -1) {
		for name := range strings.SplitSeq(strings.Join(m[1:], ""), ", ") {
			checked++
			if !there[name] {
				t.Errorf("no line on a call has %q: they have %v", name, there)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d attributes are found in the queries: %s", checked, queries)
	}
}

// scraper is a Prometheus.
type scraper struct {
	*rig.Process
	address string
}

// startPrometheus starts one that scrapes each target every second.
func startPrometheus(t *testing.T, program string, checkout rig.Checkout, targets []string) scraper {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{checkout.Path("deploy", "prometheus", "alerts.yaml")},
		"scrape_configs": []map[string]any{{"job_name": "gatehouse",
			"static_configs": []map[string]any{{"targets": targets}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	s := scraper{address: mcptest.LoopbackAddress(t)}
	s.Process, err = rig.Start(exec.Command(program, "--config.file", file, "--log.level", "warn",
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", s.address))
	if err != nil {
		t.Fatal(err)
	}
	(&lab{}).own(t, "prometheus", s.Process)
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	if err := s.WaitListening(ctx, s.address); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkRules expects every alert and recording to have been evaluated without an error.
func (s scraper) checkRules(t *testing.T) {
	t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := s.get(t.Context(), "rules", &answer); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			checked++
			if r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if checked == 0 {
		t.Error("Prometheus has no rules")
	}
}

// query returns how many series a query of a board has, with the variables of the board.
func (s scraper) query(ctx context.Context, expr string) (int, error) {
	expr = strings.NewReplacer("$job", "gatehouse", "$upstream", "books", "$__rate_interval", "1m").Replace(expr)
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := s.get(ctx, "query?query="+url.QueryEscape(expr), &answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, errors.New(answer.Error)
	}
	return len(answer.Data.Result), nil
}

// get reads an answer of the API of Prometheus.
func (s scraper) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/api/v1/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(into)
}

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-mcp/gatehouse/gateway"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/audit"
	"github.com/gatehouse-mcp/gatehouse/internal/mcptest"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// traced is a gateway in front of a server of each era, whose calls are traced.
type traced struct {
	url     string
	admin   string // the URL of what operators see
	log     mcptest.Log
	records writtenTo
	heard   map[string]chan toldOfTrace // by the server's name: what came with its calls
	stop    func()                      // sends the rest of the spans
}

// toldOfTrace is the trace context that a server was told, in the header and in _meta.
type toldOfTrace struct{ header, meta, state, baggage string }

// newTraced starts it. Without a collector, traces are off.
func newTraced(t *testing.T, at *mcptest.Collector, sample string) *traced {
	t.Helper()
	g := &traced{records: writtenTo(filepath.Join(t.TempDir(), "audit.jsonl")), heard: map[string]chan toldOfTrace{}}
	cfg := gateway.Config{Listen: "127.0.0.1:0", Admin: config.Admin{Listen: "127.0.0.1:0",
		API: admin.Config{Loopback: admin.RoleViewer}}, Audit: audit.Config{Sinks: []audit.Sink{{Type: audit.TypeFile,
		Path: string(g.records)}}}}
	if at != nil {
		cfg.Tracing = tracing.Config{Collector: tracing.Collector{Endpoint: at.URL}, Sample: sample}
	}
	for name, revision := range map[string]string{"old": statefulServer, "new": stateless} {
		s, heard := scripted(t, revision), make(chan toldOfTrace, 10)
		s.Tools("do")
		s.Tool("do", func(c *mcptest.Call) {
			now := toldOfTrace{header: c.Header.Get("Traceparent")}
			c.Param("_meta|traceparent", &now.meta)
			c.Param("_meta|tracestate", &now.state)
			c.Param("_meta|baggage", &now.baggage)
			heard <- now
			c.Text("canary-result")
		})
		g.heard[name] = heard
		cfg.Upstreams = append(cfg.Upstreams, upstream.Config{Name: name, URL: s.URL})
	}
	served, err := gateway.New(gateway.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&g.log, nil)),
		Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	served.Start()
	g.stop = func() { _ = served.Stop(deadline(t)) }
	t.Cleanup(g.stop)
	if err := served.WaitReady(deadline(t)); err != nil {
		t.Fatal(err)
	}
	g.url, g.admin = served.URL(), "http://"+served.AdminAddr().String()
	return g
}

// scrape requests the metrics as a scraper that wants exemplars.
func (g *traced) scrape(t *testing.T) string {
	t.Helper()
	return g.operators(t, "/metrics")
}

// operators requests what operators see.
func (g *traced) operators(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(deadline(t), http.MethodGet, g.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text, application/json")
	resp, err := ownClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTraces: one call is followed from its client to its server by one id: in the spans, in
// the exemplars of metrics, in what the server is told, in the log, in the record and in the API,
// for clients and servers of each era, wherever the client puts its trace context. Arguments, results and sessions are in no span.
func TestTraces(t *testing.T) {
	t.Parallel()
	at := mcptest.NewCollector()
	t.Cleanup(at.Close)
	g := newTraced(t, at, "")
	type sent struct {
		pair, trace, parent string
		told                toldOfTrace
	}
	var all []sent
	var secrets []string
	n := 0
	for _, revision := range eras {
		c := raw(t, g.url, revision)
		if c.Session != "" {
			secrets = append(secrets, c.Session)
		}
		for _, server := range []string{"old", "new"} {
			for _, where := range []string{"_meta", "header", "both", "nowhere"} {
				n++
				s := sent{pair: revision + " to " + server + ", context in " + where, trace: fmt.Sprintf("%032x", n),
					parent: fmt.Sprintf("%016x", n)}
				parent := "00-" + s.trace + "-" + s.parent + "-00"
				meta := `"baggage":"k=v"`
				c.Header = map[string][]string{}
				switch where {
				case "_meta", "both":
					meta += `,"traceparent":"` + parent + `","tracestate":"a=b"`
				}
				switch where {
				case "header":
					c.Header["Traceparent"], c.Header["Tracestate"], c.Header["Baggage"] = []string{parent}, []string{"a=b"},
						[]string{"other=1"}
				case "both": // that of a proxy, for example
					c.Header["Traceparent"] = []string{"00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01"}
				case "nowhere":
					s.trace, s.parent = "", ""
				}
				mustCall(t, c, "tools/call", `{"name":"`+server+`__do","arguments":{"a":"canary-argument"},"_meta":{`+meta+`}}`)
				s.told = receive(t, s.pair, g.heard[server])
				if s.trace == "" {
					s.trace = s.told.meta[3:35]
				}
				all = append(all, s)
			}
		}
	}
	scrape := g.scrape(t)
	for _, name := range []string{"gatehouse_call_duration_seconds", "gatehouse_upstream_call_duration_seconds",
		"mcp_server_operation_duration_seconds", "mcp_client_operation_duration_seconds"} {
		led := false
		for line := range strings.Lines(scrape) {
			_, trace, ok := strings.Cut(line, `# {trace_id="`)
			led = led || ok && strings.HasPrefix(line, name+"_bucket{") &&
				slices.ContainsFunc(all, func(s sent) bool { return strings.HasPrefix(trace, s.trace) })
		}
		if !led {
			t.Errorf("no bucket of %s leads to a trace", name)
		}
	}
	var decisions struct{ Decisions []struct{ ID, Trace string } }
	if err := json.Unmarshal([]byte(g.operators(t, "/api/v1/decisions?limit=1000")), &decisions); err != nil {
		t.Fatal(err)
	}
	calls := make(map[string]string) // by trace: the call's id
	for _, d := range decisions.Decisions {
		calls[d.Trace] = d.ID
	}
	for _, s := range all {
		if call := g.operators(t, "/api/v1/calls/"+calls[s.trace]); !strings.Contains(call, `"trace":"`+s.trace+`"`) {
			t.Errorf("%s: the API says %s", s.pair, call)
		}
	}
	g.stop()
	records := g.records.String()
	for _, s := range all {
		spans := at.Spans(s.trace)
		if len(spans) != 2 {
			t.Errorf("%s: %d spans, want 2", s.pair, len(spans))
			continue
		}
		client, server := spans[0], spans[1]
		parent := "00-" + s.trace + "-" + client.ID + "-01"
		if server.Parent != s.parent || client.Parent != server.ID || server.Kind.String() != "SPAN_KIND_SERVER" ||
			client.Kind.String() != "SPAN_KIND_CLIENT" {
			t.Errorf("%s: the spans do not follow each other: %+v", s.pair, spans)
		}
		if s.told.header != parent || s.told.meta != parent || s.told.baggage != "k=v" ||
			(s.told.state != "a=b" && s.parent != "") {
			t.Errorf("%s: the server was told %+v, want %s", s.pair, s.told, parent)
		}
		if n := g.log.Count("trace=" + s.trace + " "); n != 1 {
			t.Errorf("%s: %d lines of the log have the trace", s.pair, n)
		}
		if n := strings.Count(records, `"trace":"`+s.trace+`"`); n != 1 {
			t.Errorf("%s: %d records have the trace", s.pair, n)
		}
	}
	wantNowhere(t, "the collector", at.String(), append(secrets, "canary-")...)
}

// TestTraceOfAQuestion: the rounds of a call that asks its user belong to one trace.
func TestTraceOfAQuestion(t *testing.T) {
	t.Parallel()
	at := mcptest.NewCollector()
	t.Cleanup(at.Close)
	s := scripted(t, statefulServer)
	s.Tools("do")
	s.Tool("do", func(c *mcptest.Call) {
		if _, err := c.Ask(aForm.Method, aForm.Params); err != nil {
			t.Error(err)
		}
		c.Text("x")
	})
	g, stop, err := run(gateway.Config{Tracing: tracing.Config{Collector: tracing.Collector{Endpoint: at.URL}},
		Upstreams: []upstream.Config{{Name: "up", URL: s.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	c := rawWith(t, g.URL(), statefulClient, askable)
	if _, asked := converse(t, c, "tools/call",
		`{"name":"up__do","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}`,
		usual); len(asked) != 1 {
		t.Errorf("asked %v", asked)
	}
	stop()
	spans := at.Spans("0af7651916cd43dd8448eb211c80319c")
	if len(spans) != 3 || spans[0].Parent != spans[2].ID || spans[1].Parent != spans[2].ID ||
		spans[2].Parent != "b7ad6b7169203331" {
		t.Errorf("the spans are %+v, want one of the call around two of its rounds", spans)
	}
}

// TestSessionDurations: a session that ends counts on both sides, with the revision of each, and its
// record says whose it was.
func TestSessionDurations(t *testing.T) {
	t.Parallel()
	at := mcptest.NewCollector()
	t.Cleanup(at.Close)
	g := newTraced(t, at, "")
	c := raw(t, g.url, "2025-06-18")
	mustCall(t, c, "tools/call", `{"name":"old__do"}`)
	if status, err := c.Delete(deadline(t)); status != http.StatusNoContent || err != nil {
		t.Fatal(status, err)
	}
	for _, ended := range []string{
		`mcp_server_session_duration_seconds_count{mcp_protocol_version="2025-06-18"} 1`,
		`mcp_client_session_duration_seconds_count{mcp_protocol_version="` + statefulServer + `"} `,
	} {
		eventually(t, ended, func() bool { return strings.Contains(g.scrape(t), "\n"+ended) })
	}
	g.stop()
	for line := range strings.Lines(g.records.String()) {
		if strings.Contains(line, `"kind":"session"`) && strings.Contains(line, `"event":"end"`) {
			if !strings.Contains(line, `"revision":"2025-06-18"`) || !strings.Contains(line, `"duration_ms":`) {
				t.Errorf("the record of the end is %s", line)
			}
			return
		}
	}
	t.Error("the end of the session is not recorded")
}

// TestUntraced: with traces off, and for a call that is not sampled, the server gets in _meta
// what the client wrote, and no header; the log has the id of a trace only if traces are on.
func TestUntraced(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43ddffffffffffffffff", "00-0af7651916cd43ddffffffffffffffff-b7ad6b7169203331-01"
	at := mcptest.NewCollector()
	t.Cleanup(at.Close)
	for name, where := range map[string]*mcptest.Collector{"off": nil, "not sampled": at} {
		g := newTraced(t, where, "0.01")
		for _, revision := range eras {
			c := raw(t, g.url, revision)
			for server, heard := range g.heard {
				c.Header = map[string][]string{"Traceparent": {parent}}
				mustCall(t, c, "tools/call", `{"name":"`+server+`__do","_meta":{"traceparent":"`+parent+
					`","tracestate":"a=b","baggage":"k=v"}}`)
				if got := receive(t, "a call", heard); got != (toldOfTrace{parent, parent, "a=b", "k=v"}) {
					t.Errorf("%s: client %s: server %s was told %+v", name, revision, server, got)
				}
				mustCall(t, c, "tools/call", `{"name":"`+server+`__do"}`)
				if got := receive(t, "a call", heard); got != (toldOfTrace{header: parent}) {
					t.Errorf("%s: client %s: server %s was told %+v of a header", name, revision, server, got)
				}
			}
		}
		if where == nil && (strings.Contains(g.scrape(t), "mcp_") || strings.Contains(g.scrape(t), "trace_id")) {
			t.Error("there are metrics of traces without traces")
		}
		g.stop()
		if n := g.log.Count("trace=" + trace); n != 8 {
			t.Errorf("%s: %d lines of the log have the trace, want 8", name, n)
		}
		if n := strings.Count(g.records.String(), trace); n < 4 {
			t.Errorf("%s: %d records have the trace, want at least 4", name, n)
		}
	}
	if spans := at.Spans(trace); spans != nil {
		t.Errorf("there are spans: %+v", spans)
	}
}

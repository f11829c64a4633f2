package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// The parts of ExportLogsServiceRequest that are sent, as OTLP/JSON names them.
type (
	otlpRequest struct {
		ResourceLogs []struct {
			Resource  struct{ Attributes []otlpAttribute }
			ScopeLogs []struct {
				Scope      struct{ Name string }
				LogRecords []otlpRecord
			}
		}
	}
	otlpAttribute struct {
		Key   string
		Value struct{ StringValue string }
	}
	otlpRecord struct {
		TimeUnixNano, ObservedTimeUnixNano string
		SeverityNumber                     int
		SeverityText, EventName, TraceID   string
		Body                               struct{ StringValue string }
		Attributes                         []otlpAttribute
	}
)

func decodeOTLP(t *testing.T, body string) otlpRequest {
	t.Helper()
	var r otlpRequest
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return r
}

func byKey(all []otlpAttribute) map[string]string {
	m := make(map[string]string)
	for _, a := range all {
		m[a.Key] = a.Value.StringValue
	}
	return m
}

// TestOTLP: each record is a log record whose body is the line, with the time, the trace and
// what one searches for.
func TestOTLP(t *testing.T) {
	t.Parallel()
	w := newWeb(t, "", "", status(503), cut)
	j := started(t, remoteConfig("", 0, Sink{Type: TypeOTLP, URL: w.URL}), Deps{Version: "v1", retry: short})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	j.Put(&record.Record{Time: at, Kind: record.KindCall, ID: "c1", User: "alice", Revision: "r",
		Method: mcp.MethodToolsCall, Name: "crm__x", Upstream: "crm",
		Decision: "deny", Rule: "a \"rule\"", Outcome: "invalid", Error: "GH-NOT-FOUND", Trace: "0af7651916cd43dd8448eb211c80319c"})
	j.Put(&record.Record{Time: at, Kind: record.KindCall, Method: mcp.MethodResourcesRead,
		Name: "crm+x:///y", Outcome: "ok"})
	j.Put(&record.Record{Time: at, Kind: record.KindReload, Event: "refused"})
	j.Put(&record.Record{Time: at, Kind: record.KindRefused, Error: "GH-PARSE"})
	closed(t, j)
	var all []otlpRecord
	text := ""
	for i, body := range w.bodies[2:] {
		if r := w.asked[i]; r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		r := decodeOTLP(t, body).ResourceLogs[0]
		if got := byKey(r.Resource.Attributes); !cmp.Equal(got,
			map[string]string{"service.name": "gatehouse", "service.version": "v1", "service.instance.id": "alpha"}) {
			t.Errorf("the process is %v", got)
		}
		for _, l := range r.ScopeLogs[0].LogRecords {
			all = append(all, l)
			text += l.Body.StringValue + "\n"
		}
	}
	wantRows(t, rows(t, text), "anchor start", "c1", "", "", "", "anchor stop")
	for i, want := range []struct {
		event, severity, trace string
		number                 int
		attributes             map[string]string
	}{
		{"anchor", "info", "", 9, map[string]string{"gatehouse.event": "start"}},
		{"call", "notice", "0af7651916cd43dd8448eb211c80319c", 10, map[string]string{
			"user.id": "alice", "mcp.method.name": "tools/call", "mcp.protocol.version": "r", "gen_ai.tool.name": "crm__x",
			"error.type":        "GH-NOT-FOUND",
			"gatehouse.call.id": "c1", "gatehouse.upstream": "crm", "gatehouse.decision": "deny", "gatehouse.rule": `a "rule"`,
			"gatehouse.outcome": "invalid"}},
		{"call", "info", "", 9, map[string]string{"mcp.method.name": "resources/read", "mcp.resource.uri": "crm+x:///y",
			"gatehouse.outcome": "ok"}},
		{"reload", "warning", "", 13, map[string]string{"gatehouse.event": "refused"}},
		{"refused", "notice", "", 10, map[string]string{"error.type": "GH-PARSE"}},
		{"anchor", "info", "", 9, map[string]string{"gatehouse.event": "stop"}},
	} {
		got := all[i]
		if got.EventName != "gatehouse.audit."+want.event || got.SeverityText != want.severity ||
			got.SeverityNumber != want.number || got.TraceID != want.trace {
			t.Errorf("record %d: %+v", i, got)
		}
		if diff := cmp.Diff(want.attributes, byKey(got.Attributes)); diff != "" {
			t.Errorf("record %d: (-want +got)\n%s", i, diff)
		}
		if got.TimeUnixNano != got.ObservedTimeUnixNano ||
			want.event == "call" && got.TimeUnixNano != fmt.Sprint(at.UnixNano()) {
			t.Errorf("record %d: its time is %s", i, got.TimeUnixNano)
		}
	}
}

// TestOTLPPartialSuccess: records that a receiver says it has not taken are lost, and are not sent
// again, even where calls wait for room.
func TestOTLPPartialSuccess(t *testing.T) {
	t.Parallel()
	for _, onFull := range []string{OnFullDrop, OnFullBlock} {
		for _, answer := range []string{`{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}`,
			`{"partialSuccess":{"rejectedLogRecords":1}}`} {
			some := takes(func(w http.ResponseWriter) { fmt.Fprint(w, answer) })
			none := takes(func(w http.ResponseWriter) {
				fmt.Fprint(w, `{"partialSuccess":{"rejectedLogRecords":"0","errorMessage":"a warning"}}`)
			})
			w := newWeb(t, "", "", none, some)
			w.accept = func(body []byte) (text string) {
				for _, l := range decodeOTLP(t, string(body)).ResourceLogs[0].ScopeLogs[0].LogRecords {
					text += l.Body.StringValue + "\n"
				}
				return text
			}
			metrics := NewMetrics(prometheus.NewRegistry())
			j := started(t, remoteConfig(onFull, 0, Sink{Type: TypeOTLP, URL: w.URL + "/v1/logs"}),
				Deps{Metrics: metrics, retry: short})
			until(t, "the start", func() bool { return value(t, metrics.records) == 1 })
			j.Put(call("1"))
			closed(t, j)
			wantRows(t, rows(t, w.text()), "anchor start", "1", "gap 1", "anchor stop")
			if n := value(t, metrics.dropped); n != 1 {
				t.Errorf("%v are lost", n)
			}
		}
	}
}

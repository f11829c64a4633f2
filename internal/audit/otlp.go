package audit

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
)

// otlpPath is where receivers of OTLP/HTTP take logs.
const otlpPath = "/v1/logs"

// newOTLP makes a sink that sends records as log records of OpenTelemetry, by OTLP/HTTP in JSON.
// The body of the log record is the line.
func newOTLP(s Sink, deps Deps) (*poster, error) {
	to, err := target(s.URL, []string{"https", "http"})
	if err != nil {
		return nil, err
	}
	if to.path == "" || to.path == "/" {
		base, query, found := strings.Cut(s.URL, "?")
		s.URL = strings.TrimSuffix(base, "/") + otlpPath
		if found {
			s.URL += "?" + query
		}
	}
	p, err := newPoster(s, "application/json")
	if err != nil {
		return nil, err
	}
	before := otlpHead(deps)
	p.body = func(to []byte, part []entry) []byte {
		to = append(to, before...)
		for i, e := range part {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendLogRecord(to, e)
		}
		return append(to, "]}]}]}"...)
	}
	p.lost = rejected
	return p, nil
}

// otlpHead is a request up to its log records: which process they come from.
func otlpHead(deps Deps) []byte {
	a := attributes(`{"resourceLogs":[{"resource":{"attributes":[`)
	a.text("service.name", "gatehouse")
	a.text("service.version", deps.Version)
	a.text("service.instance.id", deps.Replica)
	return append(a, `]},"scopeLogs":[{"scope":{"name":"gatehouse.audit"},"logRecords":[`...)
}

// otlpSeverities are SeverityNumber of the OpenTelemetry log data model, and their names, by
// level.
var otlpSeverities = [...]struct {
	number int64
	text   string
}{levelInfo: {9, "info"}, levelNotice: {10, "notice"}, levelWarning: {13, "warning"}, levelError: {17, "error"}}

func appendLogRecord(to []byte, e entry) []byte {
	r := e.record
	at := strconv.FormatInt(r.Time.UnixNano(), 10) // 64-bit numbers are strings in OTLP/JSON
	severity := otlpSeverities[levelOf(r)]
	to = append(append(append(to, `{"timeUnixNano":"`...), at...), `","observedTimeUnixNano":"`...)
	to = append(append(to, at...), `","severityNumber":`...)
	to = append(strconv.AppendInt(to, severity.number, 10), `,"severityText":"`...)
	to = append(append(to, severity.text...), `","eventName":"gatehouse.audit.`...)
	to = append(append(to, r.Kind...), `","body":{"stringValue":`...)
	to = append(mcp.AppendString(to, string(e.line[:len(e.line)-1])), `},"attributes":[`...)
	to = appendAttributes(to, r)
	to = append(to, ']')
	if id, err := hex.DecodeString(r.Trace); err == nil && len(id) == 16 {
		to = append(append(append(to, `,"traceId":"`...), r.Trace...), '"')
	}
	return append(to, '}')
}

// appendAttributes adds what one searches for, by the names of OpenTelemetry's semantic
// conventions where these have one. Everything else is in the body.
func appendAttributes(to []byte, r *record.Record) []byte {
	a := attributes(to)
	a.text("user.id", r.User)
	a.text("mcp.method.name", r.Method)
	a.text("mcp.protocol.version", r.Revision)
	switch r.Method {
	case mcp.MethodToolsCall:
		a.text("gen_ai.tool.name", r.Name)
	case mcp.MethodPromptsGet:
		a.text("gen_ai.prompt.name", r.Name)
	case mcp.MethodResourcesRead:
		a.text("mcp.resource.uri", r.Name)
	}
	a.text("error.type", r.Error)
	a.text("gatehouse.call.id", r.ID)
	a.text("gatehouse.upstream", r.Upstream)
	a.text("gatehouse.decision", r.Decision)
	a.text("gatehouse.rule", r.Rule)
	a.text("gatehouse.outcome", r.Outcome)
	a.text("gatehouse.event", r.Event)
	return a
}

// attributes are those of a log record or a resource, as far as they are written. Empty values
// are left out.
type attributes []byte

func (a *attributes) text(key, value string) {
	if value == "" {
		return
	}
	if (*a)[len(*a)-1] == '}' {
		*a = append(*a, ',')
	}
	*a = append(append(append(*a, `{"key":"`...), key...), `","value":{"stringValue":`...)
	*a = append(mcp.AppendString(*a, record.Clip(value)), "}}"...)
}

// rejected reads partialSuccess of an answer, which must not be sent again (OTLP specification,
// "Partial Success").
func rejected(answer []byte) (n int64, why string) {
	part := mcp.Raw(answer).At("partialSuccess")
	count, ok := part.Member("rejectedLogRecords")
	if !ok {
		return 0, ""
	}
	text := count.Text()
	if text == "" {
		text = string(count)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, ""
	}
	return n, record.Clip(part.At("errorMessage").Text())
}

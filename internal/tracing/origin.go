package tracing

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxState bounds a tracestate that is read, in bytes. W3C Trace Context asks for 512 at
// least.
const maxState = 2048

// origin is where a call comes from: the client's span, and that of the HTTP request, which
// may be another one.
type origin struct {
	parent  string // traceparent, "" for none
	context trace.SpanContext
	request trace.SpanContext // of the header, if the context is of _meta
}

// originOf reads the trace context of a call. That in _meta, which is the message's own, wins
// over that in the header (SEP-414).
func originOf(params mcp.Raw, h http.Header) (o origin) {
	var header origin
	if lines := h["Traceparent"]; len(lines) == 1 {
		header = newOrigin(lines[0], strings.Join(h["Tracestate"], ","))
	}
	meta, _ := params.Member("_meta")
	if parent, ok := meta.Member(mcp.MetaTraceparent); ok {
		state, _ := meta.Member(mcp.MetaTracestate)
		o = newOrigin(parent.Text(), state.Text())
	}
	if o.parent == "" {
		return header
	}
	if header.parent != o.parent {
		o.request = header.context
	}
	return o
}

// unspanned returns the Trace of a call without a span, nil if it belongs to none: what its client
// says of a trace is passed on as it came.
func unspanned(from origin, h http.Header) *mcp.Trace {
	header, state := "", ""
	if lines := h["Traceparent"]; len(lines) == 1 && mcp.ValidTraceparent(lines[0]) {
		header, state = lines[0], strings.Join(h["Tracestate"], ",")
		if len(state) > maxState {
			state = ""
		}
	}
	parent := cmp.Or(from.parent, header)
	if parent == "" {
		return nil
	}
	return &mcp.Trace{ID: mcp.TraceID(parent), Header: header, HeaderState: state}
}

// newOrigin reads a trace context. A broken one counts as none.
func newOrigin(parent, state string) (o origin) {
	if !mcp.ValidTraceparent(parent) {
		return o
	}
	var cfg trace.SpanContextConfig
	var flags [1]byte
	_, _ = hex.Decode(cfg.TraceID[:], []byte(parent[3:35])) // valid, as was checked
	_, _ = hex.Decode(cfg.SpanID[:], []byte(parent[36:52]))
	_, _ = hex.Decode(flags[:], []byte(parent[53:55]))
	cfg.TraceFlags, cfg.Remote = trace.TraceFlags(flags[0])&(trace.FlagsSampled|trace.FlagsRandom), true
	if len(state) <= maxState {
		cfg.TraceState, _ = trace.ParseTraceState(state) // a broken one is dropped
	}
	return origin{parent: parent, context: trace.NewSpanContext(cfg)}
}

// traceparent writes the context of a span.
func traceparent(c trace.SpanContext) string {
	id, span := c.TraceID(), c.SpanID()
	text := append(make([]byte, 0, 55), "00-"...)
	text = append(hex.AppendEncode(text, id[:]), '-')
	text = append(hex.AppendEncode(text, span[:]), '-')
	return string(hex.AppendEncode(text, []byte{byte(c.TraceFlags())}))
}

// share decides which calls are traced.
type share struct {
	below uint64 // of 2^63
	trust bool
}

func shareOf(part float64, trust bool) share {
	return share{uint64(part * (1 << 63)), trust}
}

// takes reports whether a call is traced. Calls of one trace get the same decision, which is that
// of other programs with this share (OpenTelemetry's TraceIdRatioBased). The flag of a client
// counts only if it is trusted: otherwise any client could have every call traced.
func (s share) takes(o origin) bool {
	switch {
	case o.parent == "":
		return rand.Uint64()>>1 < s.below
	case s.trust:
		return o.context.IsSampled()
	}
	id := o.context.TraceID()
	return binary.BigEndian.Uint64(id[8:])>>1 < s.below
}

package tracing

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/record"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

const (
	// typeToolError and typeCancelled are values of error.type beside the names of failures.
	typeToolError = "tool_error" // of the conventions: a result with isError
	typeCancelled = "cancelled"
	// typeOther stands for methods that are none of MCP.
	typeOther = "_OTHER"
	// maxFailed is the size of the largest result in which isError is looked for, in bytes.
	maxFailed = 64 << 10
)

// Span is the part of a call that one side sees: traced, only measured, or only a step of the
// call's trail. If it is none of these it is nil, and its methods, which are for one goroutine, do
// nothing.
type Span struct {
	span   trace.Span // nil if it is only measured
	into   durations
	began  time.Time
	method string
	target string // what the name of the span has beside the method
	kind   string // error.type, "" for success
	step   trail.Mark
}

// Server begins the SERVER span of a client's call. It returns the Trace of the call, nil if none
// is known.
func (t *Tracer) Server(params mcp.Raw, h http.Header) (*Span, *mcp.Trace) {
	if t == nil {
		return nil, nil
	}
	now := t.now.Load()
	if now == nil {
		return nil, unspanned(origin{}, h)
	}
	s := &Span{into: t.deps.Metrics.server, began: time.Now(), method: typeOther}
	from := originOf(params, h)
	if !now.share.takes(from) {
		return s, unspanned(from, h)
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if from.request.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from.request}))
	}
	return s, s.begin(now, from.context, options)
}

// Peer is the server to which a call goes.
type Peer struct {
	// Upstream is its configured name.
	Upstream string
	// Revision is what it speaks, "" if that is not known.
	Revision string
	// Process says that it is reached by stdio. Otherwise Host and Port are its address.
	Process bool
	Host    string
	Port    int
}

// Client begins the CLIENT span of a call that goes to a server, and returns the call to make
// in it. A call that is not traced comes back as it is, and is measured. The span is a step of the
// call's trail, too.
func (t *Tracer) Client(c *mcp.Call, to Peer) (*Span, *mcp.Call) {
	step := c.Trail.Begin("server", to.Upstream)
	if !t.On() {
		if c.Trail == nil {
			return nil, c
		}
		return &Span{step: step, method: c.Method}, c
	}
	now := t.now.Load()
	if now == nil { // since just now
		return &Span{step: step, method: c.Method}, c
	}
	s := &Span{into: t.deps.Metrics.client, began: time.Now(), step: step}
	if !c.Trace.Spanned() {
		s.describe(c)
		return s, c
	}
	place := s.begin(now, newOrigin(c.Trace.Parent, c.Trace.State).context.WithRemote(false),
		[]trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)})
	s.describe(c)
	s.span.SetAttributes(attribute.String("gatehouse.upstream", to.Upstream))
	s.text("mcp.protocol.version", to.Revision)
	if to.Process {
		s.text("network.transport", "pipe")
	} else {
		s.text("network.transport", "tcp")
		s.text("server.address", to.Host)
		s.span.SetAttributes(attribute.Int("server.port", to.Port))
	}
	c = c.Clone()
	c.Trace = place
	return s, c
}

// begin traces the span.
func (s *Span) begin(now *setup, parent trace.SpanContext, options []trace.SpanStartOption) *mcp.Trace {
	_, s.span = now.spans.Start(trace.ContextWithSpanContext(context.Background(), parent), "", options...)
	at := s.span.SpanContext()
	return &mcp.Trace{ID: at.TraceID().String(), Parent: traceparent(at), State: at.TraceState().String()}
}

// Call describes the call of a client, in a SERVER span. id is the client's.
func (s *Span) Call(c *mcp.Call, id mcp.Raw) {
	if s == nil {
		return
	}
	s.describe(c)
	if s.span == nil {
		return
	}
	s.text("jsonrpc.request.id", strings.Trim(string(id), `"`))
	s.text("mcp.protocol.version", c.Revision)
	s.text("network.transport", "tcp")
	s.text("gatehouse.call", c.ID)
	if c.Session != "" && !c.Ephemeral {
		s.text("mcp.session.id", record.Digest(c.Session))
	}
}

// describe sets what both kinds of spans say of a call. Arguments are not among it.
func (s *Span) describe(c *mcp.Call) {
	s.method = typeOther
	if mcp.KnownMethod(c.Method) {
		s.method = c.Method
	}
	if s.span == nil {
		return
	}
	s.text("mcp.method.name", s.method)
	switch c.Method {
	case mcp.MethodToolsCall:
		s.target = c.Name
		s.text("gen_ai.tool.name", c.Name)
		s.text("gen_ai.operation.name", "execute_tool")
	case mcp.MethodPromptsGet:
		s.target = c.Name
		s.text("gen_ai.prompt.name", c.Name)
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		s.text("mcp.resource.uri", c.Name)
	}
}

func (s *Span) text(key, value string) {
	if value != "" {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

// Outcome notes how the call ended. It comes before the reply is released. Messages are not
// repeated: those of servers may quote arguments.
func (s *Span) Outcome(ctx context.Context, reply *mcp.Reply, err error) {
	if s == nil {
		return
	}
	code := 0
	known, isKnown := errors.AsType[*mcp.Error](err)
	switch {
	case err == nil:
		s.kind = failedTool(s.method, reply)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		s.kind = typeCancelled
	case isKnown:
		s.kind, code = known.Name.String(), known.Code
		if known.Name == failure.NotFound {
			s.target = "" // anything that a client makes up
		}
	default:
		s.kind, code = failure.Internal.String(), mcp.CodeInternal
	}
	if s.span == nil {
		return
	}
	if code != 0 {
		s.text("rpc.response.status_code", strconv.Itoa(code))
	}
	if s.kind != "" {
		s.text("error.type", s.kind)
		s.span.SetStatus(codes.Error, "")
	}
	if reply != nil && reply.Ask != nil {
		s.span.SetAttributes(attribute.Bool("gatehouse.asks", true))
	}
}

// failedTool is typeToolError for the result of a tool that failed, otherwise "".
func failedTool(method string, reply *mcp.Reply) string {
	if method != mcp.MethodToolsCall || reply == nil || len(reply.Result) > maxFailed {
		return ""
	}
	if failed, _ := reply.Result.Member("isError"); string(failed) == "true" {
		return typeToolError
	}
	return ""
}

// End ends the span.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.step.End(s.kind)
	if s.into.HistogramVec == nil {
		return
	}
	took := time.Since(s.began)
	if s.span == nil {
		s.into.observe(s.method, s.kind, took, "")
		return
	}
	s.into.observe(s.method, s.kind, took, s.span.SpanContext().TraceID().String())
	name := s.method
	if s.target != "" {
		name += " " + s.target[:min(len(s.target), attributeBytes)]
	}
	s.span.SetName(name)
	s.span.End()
}

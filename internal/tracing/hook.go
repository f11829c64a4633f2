package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// HookSpan is a hook that looks at a call. A nil HookSpan does nothing.
type HookSpan struct{ span trace.Span }

// Hook begins the INTERNAL span of a hook that looks at the arguments or the results of a call. It
// returns nil if the call is not traced.
func (t *Tracer) Hook(c *mcp.Call, name, on string) *HookSpan {
	if t == nil || !c.Trace.Spanned() {
		return nil
	}
	now := t.now.Load()
	if now == nil {
		return nil
	}
	var s Span
	s.begin(now, newOrigin(c.Trace.Parent, c.Trace.State).context.WithRemote(false), nil)
	s.span.SetName("hook " + name)
	s.span.SetAttributes(attribute.String("gatehouse.hook", name), attribute.String("gatehouse.hook.on", on))
	return &HookSpan{s.span}
}

// End ends the span. action is what the hook did.
func (s *HookSpan) End(action string) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attribute.String("gatehouse.hook.action", action))
	s.span.End()
}

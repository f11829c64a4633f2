package tracing

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/trail"
)

// HookSpan is a hook that looks at a call. A nil HookSpan does nothing.
type HookSpan struct {
	span trace.Span // nil if the call is not traced
	step trail.Mark
}

// Hook begins the INTERNAL span of a hook on the arguments or the results of a call. It also begins
// a step of the call's trail. It returns nil if the call has neither.
func (t *Tracer) Hook(c *mcp.Call, name, on string) *HookSpan {
	var now *setup
	if t != nil && c.Trace.Spanned() {
		now = t.now.Load()
	}
	if now == nil && c.Trail == nil {
		return nil
	}
	h := &HookSpan{step: c.Trail.Begin("hook", name+" on "+on)}
	if now != nil {
		var s Span
		s.begin(now, newOrigin(c.Trace.Parent, c.Trace.State).context.WithRemote(false), nil)
		s.span.SetName("hook " + name)
		s.span.SetAttributes(attribute.String("gatehouse.hook", name), attribute.String("gatehouse.hook.on", on))
		h.span = s.span
	}
	return h
}

// End ends the span. action is what the hook did.
func (s *HookSpan) End(action string) {
	if s == nil {
		return
	}
	s.step.End(action)
	if s.span != nil {
		s.span.SetAttributes(attribute.String("gatehouse.hook.action", action))
		s.span.End()
	}
}

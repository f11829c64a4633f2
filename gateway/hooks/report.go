package hooks

import (
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/tracing"
)

// span begins a span, but not for each message in mid-call.
func (r *run) span(h *hook, p piece) *tracing.HookSpan {
	if p.kind == kindMessage {
		return nil
	}
	return r.Tracer.Hook(r.call, h.name, p.on)
}

// note counts the effect of a hook, and keeps it for the record of the call: of several pieces, the
// greatest.
func (r *run) note(ran mcp.HookRun) {
	r.Metrics.ran(ran)
	if r.call.Verdict == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ran {
		if known := &r.ran[i]; known.Name == ran.Name && known.On == ran.On {
			known.Took += ran.Took
			if rank(ran.Action) > rank(known.Action) {
				known.Action = ran.Action
			}
			return
		}
	}
	r.ran = append(r.ran, ran)
}

func rank(did string) (n int) {
	for i, name := range actions {
		if name == did {
			n = i
		}
	}
	return n
}

// report passes the effects of all hooks to the observer of the call.
func (r *run) report() {
	if r.call.Verdict == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call.Verdict.Hooks = r.ran
	r.ran = nil
}

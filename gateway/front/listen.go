package front

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp/wire"
)

// skillsFilter is the member of a filter that asks for notifications/skills/list_changed.
// SEP-2076 has the notification and is older than filters: the name follows theirs.
const skillsFilter = "skillsListChanged"

// wanted is a filter of subscriptions/listen (2026-07-28
// basic/patterns/subscriptions). Members that are not known are left out.
type wanted struct {
	tools, prompts, resources bool
	skills                    bool // which no revision has, and nobody has to ask for
	uris                      []string
	tasks                     []string // ids
}

func readWanted(filter mcp.Raw) (w wanted, err error) {
	if !filter.IsObject() {
		return w, invalidParams("notifications is no object")
	}
	if err := wire.CheckObject(filter, "toolsListChanged", "promptsListChanged", "resourcesListChanged", skillsFilter, "resourceSubscriptions", "taskIds"); err != nil {
		return w, err
	}
	filter.Members(func(name []byte, value mcp.Raw) bool {
		switch string(name) {
		case "toolsListChanged":
			w.tools = value.IsTrue()
		case "promptsListChanged":
			w.prompts = value.IsTrue()
		case "resourcesListChanged":
			w.resources = value.IsTrue()
		case skillsFilter:
			w.skills = value.IsTrue()
		case "resourceSubscriptions":
			w.uris, err = readNames("resourceSubscriptions", value)
		case "taskIds":
			w.tasks, err = readNames("taskIds", value)
		}
		return err == nil
	})
	return w, err
}

func readNames(member string, value mcp.Raw) (names []string, err error) {
	if !value.IsArray() {
		return nil, invalidParams("%s is no array", member)
	}
	value.Elements(func(name mcp.Raw) bool {
		if !wire.NameOK(name) {
			err = invalidParams("what is in %s is no string", member)
		}
		names = append(names, name.Text())
		return err == nil
	})
	return names, err
}

// params writes the filter as the params of a listen call.
func (w wanted) params() mcp.Raw {
	filter := mcp.Raw("{}")
	for _, m := range []struct {
		name string
		want bool
	}{{"toolsListChanged", w.tools}, {"promptsListChanged", w.prompts}, {"resourcesListChanged", w.resources}, {skillsFilter, w.skills}} {
		if m.want {
			filter = filter.With(m.name, mcp.Raw("true"))
		}
	}
	for _, m := range []struct {
		name  string
		names []string
	}{{"resourceSubscriptions", w.uris}, {"taskIds", w.tasks}} {
		if len(m.names) == 0 {
			continue
		}
		names := mcp.Raw{'['}
		for i, name := range m.names {
			if i > 0 {
				names = append(names, ',')
			}
			names = mcp.AppendString(names, name)
		}
		filter = filter.With(m.name, append(names, ']'))
	}
	return mcp.Object("notifications", filter)
}

// has reports whether the filter lets a notification through.
func (w wanted) has(method string) bool {
	switch method {
	case mcp.NoteToolsListChanged:
		return w.tools
	case mcp.NotePromptsListChanged:
		return w.prompts
	case mcp.NoteResourcesListChanged:
		return w.resources
	case mcp.NoteSkillsListChanged:
		return w.skills
	case mcp.NoteResourceUpdated:
		return len(w.uris) > 0
	case mcp.NoteTask:
		return len(w.tasks) > 0
	}
	return false
}

// listen serves subscriptions/listen: a stream that lasts until one side ends it.
// All that is on it carries the id of the request.
func (x *exchange) listen(r *http.Request, filter mcp.Raw) *refusal {
	want, err := readWanted(filter)
	if err != nil {
		return refuseBad(err)
	}
	if len(want.tasks) > 0 && x.call.Tasks != mcp.ExtensionTasks {
		return refuseBad(mcp.ErrTasksUndeclared())
	}
	if !x.accept.stream {
		return refuseAccept("text/event-stream")
	}
	if closed(x.f.drain) {
		return refuseClosing()
	}
	if !x.f.openStream(x.call.Caller, false) {
		return refuseStreams(ownID)
	}
	x.call.Params = want.params()
	x.id, x.call.Caps, x.token = bytes.Clone(x.id), bytes.Clone(x.call.Caps), nil // the request's body can go
	x.f.running.Add(1)                                                            // beside the request's own
	x.f.outlast(r, func(ctx context.Context, lasts func(*stream)) {
		defer x.f.running.Done()
		defer x.f.closeStream(x.call.Caller)
		x.r, x.lasts = r, lasts
		x.listening(ctx, want)
	})
	return nil
}

// listening makes the call of listen, and answers.
func (x *exchange) listening(ctx context.Context, want wanted) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	undrain := context.AfterFunc(x.f.draining, func() { cancel(errClosing) })
	defer undrain()
	ctx, end := whileGood(ctx, x.call.Caller)
	defer end()
	x.call.Notify = func(e mcp.Event) { x.relay(ctx, e, want, cancel) }
	defer x.recover()
	x.hurry()
	_, err := x.f.handler.Handle(ctx, &x.call)
	switch cause := context.Cause(ctx); {
	case cause == errClosing, cause == errExpired, err == nil:
		result := mcp.Object("resultType", mcp.Raw(`"complete"`), "_meta",
			x.f.metaInfo.With(wire.MetaSubscriptionID, x.id))
		x.finish(http.StatusOK, message{head: wire.AppendResult(nil, x.id, result)})
	case ctx.Err() != nil:
		x.finish(http.StatusOK, message{}) // the client has gone, or does not read
	default:
		x.fail(err)
	}
}

// relay sends an event of a subscription. A client that does not keep up is given
// up rather than left with a gap: it listens again and reads anew.
func (x *exchange) relay(ctx context.Context, e mcp.Event, want wanted, giveUp context.CancelCauseFunc) {
	if ctx.Err() != nil || e.Method != mcp.NoteAcknowledged && !want.has(e.Method) {
		return
	}
	meta, _ := e.Params.Member("_meta")
	params := e.Params.Edit(mcp.Edit{Name: "_meta", Value: meta.Edit(mcp.Edit{Name: wire.MetaSubscriptionID, Value: x.id})})
	data := wire.AppendNotification(make([]byte, 0, len(params)+96), e.Method, params)
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.needStream(); s != nil && !s.send("", data) {
		if s.usable() {
			x.f.metrics.slowSubscriptions.Inc()
		}
		giveUp(errCancelled)
	}
}

package catalog

import (
	"bytes"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxSummaries bounds the cached summaries, one for each set of upstreams and of skills that are
// visible, and text of the gateway.
const maxSummaries = 64

// summary describes the gateway to callers who see the same upstreams.
type summary struct {
	offers offers
	result mcp.Raw // of server/discover
}

// visibleTo returns the upstreams that the caller of a call may know of.
func (p *plan) visibleTo(call *mcp.Call) visible { return p.visible(call.Visible) }

// visible returns the upstreams that a function accepts; a nil function accepts all.
func (p *plan) visible(known func(upstream string) bool) visible {
	if known == nil {
		return nil
	}
	v, all := make(visible, len(p.namings)), true
	for i, n := range p.namings {
		v[i] = known(n.upstream)
		all = all && v[i]
	}
	if all {
		return nil
	}
	return v
}

// summaryFor returns the summary for a set of visible upstreams, and a set of those with visible
// skills, at a view, which may be nil. preface is Call.Preface. It is made once for each combination.
func (s *snapshot) summaryFor(v, withSkills visible, at *view.View, preface string) *summary {
	if v == nil && withSkills == nil && at == nil && preface == "" {
		return s.whole
	}
	key := make([]byte, len(s.states), len(s.states)+len(preface))
	for i := range key {
		if v.has(i) {
			key[i] |= 1
		}
		if withSkills.has(i) {
			key[i] |= 2
		}
	}
	if at != nil {
		key = append(append(key, at.Name()...), 0)
	}
	key = append(key, preface...)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.summaries[string(key)]
	if f == nil {
		f = newSummary(s.plan, s.states, v, withSkills, at, preface)
		if s.summaries == nil || len(s.summaries) >= maxSummaries {
			s.summaries = make(map[string]*summary)
		}
		s.summaries[string(key)] = f
	}
	return f
}

func newSummary(p *plan, states []sourceState, v, withSkills visible, at *view.View, preface string) *summary {
	f := &summary{offers: mergeOffers(states, v, withSkills)}
	f.result = mcp.Object("capabilities", f.offers.capabilities())
	if text := p.instructions(states, v, at, preface); text != "" {
		f.result = f.result.With("instructions", mcp.String(text))
	}
	return f
}

// mergeOffers returns the capabilities of the gateway: those of all upstreams that the client may
// know of. An upstream that has not answered yet may have every list, because a client without a
// capability would not look again. For the same reason, one with resources may have skills: each
// resource may be one, also if it comes later, or in one session only.
func mergeOffers(states []sourceState, v, withSkills visible) (all offers) {
	for i, s := range states {
		if !v.has(i) {
			continue
		}
		own := s.offers.kinds
		if !s.heard {
			own = everyKind
		}
		if own.has(resources) {
			own |= setOf(skills)
		}
		if !withSkills.has(i) {
			own &^= setOf(skills)
		}
		if all.kinds |= own; !s.heard {
			continue
		}
		all.subscribe = all.subscribe || s.offers.subscribe
		all.completions = all.completions || s.offers.completions
		all.logging = all.logging || s.offers.logging
		all.ui = mergeUI(all.ui, s.offers.ui)
		all.coreTasks = all.coreTasks || s.offers.coreTasks
		all.coreCancel = all.coreCancel || s.offers.coreCancel
		all.extTasks = all.extTasks || s.offers.extTasks
	}
	all.directories = all.kinds.has(skills) // see directory
	return all
}

// capabilities encodes the object. listChanged is always promised: a reload can change
// every list. Experimental capabilities, and extensions that the gateway does not relay,
// are left out.
func (o offers) capabilities() mcp.Raw {
	out := mcp.Raw("{}")
	add := func(has bool, name, value string) {
		if has {
			out = out.With(name, mcp.Raw(value))
		}
	}
	add(o.kinds.has(tools), "tools", `{"listChanged":true}`)
	add(o.kinds.has(prompts), "prompts", `{"listChanged":true}`)
	add(o.kinds.has(resources) && o.subscribe, "resources", `{"listChanged":true,"subscribe":true}`)
	add(o.kinds.has(resources) && !o.subscribe, "resources", `{"listChanged":true}`)
	add(o.kinds.has(skills), "skills", `{"listChanged":true}`)
	add(o.completions, "completions", `{}`)
	add(o.logging, "logging", `{}`)
	// Each revision has one of the two forms of tasks, and its edge shows only that.
	add(o.coreTasks && !o.coreCancel, "tasks", `{"requests":{"tools":{"call":{}}}}`)
	add(o.coreTasks && o.coreCancel, "tasks", `{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	extensions := mcp.Raw("{}")
	if o.ui != nil {
		extensions = extensions.With(mcp.UIExtension, o.ui)
	}
	switch {
	case o.directories:
		extensions = extensions.With(mcp.SkillsExtension, mcp.Raw(`{"directoryRead":true}`))
	case o.kinds.has(skills):
		extensions = extensions.With(mcp.SkillsExtension, mcp.Raw("{}"))
	}
	if o.tasks() {
		extensions = extensions.With(mcp.TasksExtension, mcp.Raw("{}"))
	}
	if len(extensions) > len("{}") {
		out = out.With("extensions", extensions)
	}
	return out
}

// mergeUI merges the settings of two upstreams for MCP Apps: those of the first, with the
// media types of both.
func mergeUI(a, b mcp.Raw) mcp.Raw {
	if a == nil {
		return b
	}
	var types []mcp.Raw
	for _, settings := range []mcp.Raw{a, b} {
		list, _ := settings.Member("mimeTypes")
		list.Elements(func(t mcp.Raw) bool {
			for _, have := range types {
				if bytes.Equal(have, t) {
					return true
				}
			}
			types = append(types, t)
			return true
		})
	}
	if types == nil {
		return a
	}
	return a.With("mimeTypes", mcp.Array(types...))
}

// instructions joins the operator's text, preface and the texts of the upstreams. Where a view has
// a text of its own, only preface remains beside it.
func (p *plan) instructions(states []sourceState, v visible, at *view.View, preface string) string {
	if at != nil && at.Instructions() != "" {
		return clients.Instructions(preamble(at.Instructions(), preface), nil)
	}
	var sections []clients.Section
	prefixed := ""
	for i, s := range states {
		text := strings.TrimSpace(s.instructions)
		if at := p.namings[i].signInAt; at != "" && !s.heard {
			text = "This server is listed when the user has signed in there. To do so, the user opens " + at + " in a browser."
		}
		if text == "" || !v.has(i) {
			continue
		}
		n := p.namings[i]
		if prefixed == "" && !n.plain() {
			prefixed = n.prefix
		}
		if len(states) == 1 && n.plain() {
			sections = append(sections, clients.Section{Text: text})
			continue
		}
		sections = append(sections, clients.Section{Server: n.upstream, Text: text})
	}
	own := preamble(strings.TrimSpace(p.cfg.Instructions), preface)
	switch {
	case prefixed == "":
	case at != nil && at.Shortens():
		own += "\n\nThe sections below call tools and prompts by their original names. Here a name that several servers have has its server's prefix in front, such as " +
			prefixed + ", and a resource's URI has its server's name in it."
	default:
		own += "\n\nThe sections below call tools and prompts by their original names; here each name has its server's prefix in front, such as " +
			prefixed + ", and a resource's URI has its server's name in it."
	}
	return clients.Instructions(own, sections)
}

// preamble joins the operator's text and preface. The operator's is first, unless a client would
// then cut the gateway's own text.
func preamble(operators, preface string) string {
	first, second := operators, preface
	if len(first)+len(second) > clients.ReadByAll {
		first, second = second, first
	}
	return strings.TrimSpace(first + "\n\n" + second)
}

// visible is a set of upstreams by index; nil for all of them.
type visible []bool

func (v visible) has(i int) bool { return v == nil || v[i] }

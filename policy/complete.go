package policy

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// maxSuggestions is the protocol's limit on the values of a completion (2026-07-28
// server/utilities/completion#completion-results).
const maxSuggestions = 100

// complete lets a completion through for everything that the caller can see, since it runs
// nothing. For a template, it removes suggestions that would name something that is denied.
func (g *Guard) complete(ctx context.Context, c *mcp.Call, next mcp.Handler) (*mcp.Reply, error) {
	if c.Kind() == "" {
		return nil, mcp.Errorf(failure.InvalidParams, "Unknown reference type: want ref/prompt or ref/resource")
	}
	target, ok := c.Lens.Target(ctx, c.Kind(), c.Name)
	if !ok {
		return g.unknown(ctx, c, next)
	}
	if !g.policy.Visible(&c.Caller, target) {
		g.decided(c, target, Decision{Effect: Deny})
		return nil, mcp.ErrUnknown(c.Method, c.Name)
	}
	g.decided(c, target, Decision{Effect: Allow})
	inner := g.bare(c)
	inner.Target = target
	if !target.Template || !g.policy.onURIs && c.Caller.View == "" {
		return next.Handle(ctx, inner)
	}
	s, err := g.newSuggestions(c)
	if err != nil {
		return nil, err
	}
	reply, err := next.Handle(ctx, inner)
	if err != nil || reply == nil || reply.Result == nil {
		return reply, err
	}
	return &mcp.Reply{Result: s.filter(ctx, reply.Result), Release: reply.Release}, nil
}

// suggestions are a server's suggestions for one variable of a template.
type suggestions struct {
	guard    *Guard
	call     *mcp.Call
	template string // public
	variable string
	given    map[string]string // other variables
}

// newSuggestions reads the params strictly: the server must not see another variable or other
// values than the ones that are judged here. An empty value counts as none, because clients
// send variables that are not filled in yet.
func (g *Guard) newSuggestions(c *mcp.Call) (*suggestions, error) {
	params, names, err := readObject(c.Params.Without("_meta"))
	if err != nil {
		return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: %s", err)
	}
	for _, name := range []string{"argument", "context", "arguments"} {
		if names.twin(name, fold(name)) {
			return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: %s stands there in another case", name)
		}
	}
	argument, _ := params["argument"].(map[string]any)
	variable, _ := argument["name"].(string)
	s := &suggestions{guard: g, call: c, template: c.Name, variable: variable, given: make(map[string]string)}
	around, _ := params["context"].(map[string]any)
	all, _ := around["arguments"].(map[string]any)
	for name, value := range all {
		text, ok := value.(string)
		switch {
		case !ok || strings.Contains(text, hole):
			return nil, mcp.Errorf(failure.InvalidParams, "Invalid params: context.arguments must have strings")
		case text != "":
			s.given[name] = text
		}
	}
	return s, nil
}

// filter removes what the caller may not know from a completion. It also removes the total,
// which counts values that may be denied.
func (s *suggestions) filter(ctx context.Context, result mcp.Raw) mcp.Raw {
	completion, _ := result.Member("completion")
	values, _ := completion.Member("values")
	count := 0
	var kept []mcp.Raw
	values.Elements(func(value mcp.Raw) bool {
		if count++; count > maxSuggestions {
			return false
		}
		if text, ok := wholeText(value); ok && s.shows(ctx, text) {
			kept = append(kept, value)
		}
		return true
	})
	edits := []mcp.Edit{{Name: "values", Value: mcp.Array(kept...)}}
	total, counted := completion.Member("total")
	more, _ := completion.Member("hasMore")
	switch {
	case more.IsTrue(), count > maxSuggestions, counted && string(total) != strconv.Itoa(count):
		edits = append(edits, mcp.Edit{Name: "total"}, mcp.Edit{Name: "hasMore", Value: mcp.Raw("true")})
	case counted:
		edits = append(edits, mcp.Edit{Name: "total", Value: mcp.Int(int64(len(kept)))})
	}
	return result.Edit(mcp.Edit{Name: "completion", Value: completion.Edit(edits...)})
}

// shows reports whether the template with this value leads, or could lead with more values, to
// something that the caller may know of. A value for an unknown variable never does.
func (s *suggestions) shows(ctx context.Context, value string) bool {
	if strings.Contains(value, hole) || !hasVariable(s.template, s.variable) {
		return false
	}
	values := maps.Clone(s.given)
	values[s.variable] = value
	short, long := expand(s.template, values, true), expand(s.template, values, false)
	return s.leads(ctx, short) || !slices.Equal(short, long) && s.leads(ctx, long)
}

// leads reports whether one of the URIs, in any spelling, leads to something. None may lead to
// something that the caller may not know of.
func (s *suggestions) leads(ctx context.Context, uris []string) bool {
	found := false
	for _, uri := range uris {
		target, ok := s.call.Lens.Target(ctx, mcp.KindResources, uri)
		if !ok {
			continue // no caller can have it
		}
		if !s.guard.policy.couldSee(&s.call.Caller, target) {
			return false
		}
		found = true
	}
	return found
}

// couldSee is Visible for a URI that may have holes. It does not use the cache, so that
// suggestions of servers cannot displace useful entries.
func (p *Policy) couldSee(caller *mcp.Caller, t mcp.Target) bool {
	class := p.subjectOf(caller).class
	if !strings.Contains(t.Name, hole) && !strings.Contains(t.File, hole) {
		return p.newPartial(class, t).visible
	}
	forms := spellOpen(t)
	for _, r := range forms {
		if !p.partialFrom(class, r, true).visible {
			return false
		}
	}
	return len(forms) > 0
}

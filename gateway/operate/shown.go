package operate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/dialect"
)

// mostWithheld bounds the shown items of those that clients do not see.
const mostWithheld = 100

// tokenBytes is the number of bytes that count as a token. Models differ, and so do texts; schemas
// have between three and five bytes for each token.
const tokenBytes = 4

// Tokens estimates the tokens of a tool in a model's context: of its name, its description and its
// schema.
func Tokens(tool mcp.Item) int {
	size := 0
	for _, name := range []string{"name", "description", "inputSchema"} {
		value, _ := tool.Raw.Member(name)
		size += len(value)
	}
	return (size + tokenBytes - 1) / tokenBytes
}

// measure estimates the tokens of a tool, in full and with its description in short.
func (n Now) measure(tool mcp.Item) (full, short int) {
	return Tokens(tool), Tokens(n.Described.Short(tool))
}

// Upstreams returns the states of all servers, in the order of the configuration.
func (s Servers) Upstreams() (all []admin.Upstream) {
	now := s.Now()
	for i, view := range now.Catalog.Status() {
		all = append(all, s.shown(now, now.Members[i], view))
	}
	return all
}

func (s Servers) shown(now Now, m Member, view catalog.UpstreamView) admin.Upstream {
	status := m.Server.Status()
	state, since, last := StateOf(view, status)
	u := admin.Upstream{
		Name:           view.Name,
		Transport:      config.TransportOf(m.Config),
		Revision:       status.Revision,
		Server:         status.ServerName,
		Version:        status.ServerVersion,
		Tools:          view.Tools,
		Prompts:        view.Prompts,
		Resources:      view.Resources,
		Skills:         view.Skills,
		Calls:          status.Calls,
		Sessions:       status.Sessions,
		UsersNeedLogin: status.UsersNeedLogin,
	}
	u.LastFailure = ShownFailure(last)
	if !status.Refused.IsZero() {
		u.RefusedUntil = &status.Refused
	}
	if u.Revision != "" {
		u.Era = "stateless"
		if status.Stateful {
			u.Era = "stateful"
		}
	}
	known := s.Book.Of(view.Name)
	if known.Off() != nil {
		state = upstream.StateDisabled
	}
	u.State, u.Since = string(state), known.since(state, since)
	u.Tokens, u.Short = known.Sizes(now.Catalog.Tools(view.Name), now.Described, now.measure)
	return u
}

// ShownFailure returns a failure as operators see it, nil for none.
func ShownFailure(f upstream.Failure) *admin.Failure {
	if f.Error == "" {
		return nil
	}
	return &admin.Failure{At: f.At, Code: f.Name.String(), Stage: f.Stage, Error: f.Error, Cause: f.Cause}
}

// Server returns everything about one server. The error is admin.ErrNoServer.
func (s Servers) Server(page admin.ToolPage) (admin.Server, error) {
	now, name := s.Now(), page.Upstream
	m, at, ok := now.member(name)
	if !ok {
		return admin.Server{}, admin.ErrNoServer
	}
	known, status, view := s.Book.Of(name), m.Server.Status(), now.Catalog.Status()[at]
	shown := admin.Server{
		Upstream:     s.shown(now, m, view),
		Replica:      s.Replica,
		Target:       now.Config.Target(m.Config),
		Prefix:       view.Prefix,
		Templates:    view.ResourceTemplates,
		Disabled:     (*admin.Disabled)(known.Off()),
		Timeline:     known.timeline(),
		Probe:        m.probed(),
		Capabilities: status.Capabilities,
		Credentials:  m.credentials(status),
		Pinning:      now.pinning(m.Config),
		Hooks:        []admin.LookingHook{},
		Tools:        now.toolPage(page),
	}
	for _, h := range now.Config.Hooks.LooksAt(name) {
		shown.Hooks = append(shown.Hooks, admin.LookingHook(h))
	}
	all := Withheld(view, status)
	n := min(len(all), mostWithheld)
	shown.Withheld, shown.WithheldMore = append([]admin.WithheldItem{}, all[:n]...), len(all)-n
	shown.Tools.Tokens, shown.Tools.Short = shown.Upstream.Tokens, shown.Upstream.Short
	return shown, nil
}

// timeline returns the last changes as operators see them.
func (s *Server) timeline() []admin.Change {
	all := []admin.Change{}
	for _, c := range s.Changes() {
		one := admin.Change{State: string(c.State), Since: c.Since, By: c.By, Did: c.Did}
		if f := c.Failure; f.Error != "" {
			one.Code, one.Stage, one.Error, one.Cause = f.Name.String(), f.Stage, f.Error, f.Cause
		}
		all = append(all, one)
	}
	return all
}

// probed returns the steps of the last probe.
func (m Member) probed() []admin.ProbeStep {
	if m.MCP == nil {
		return m.steps(nil)
	}
	return m.steps(m.MCP.Probed())
}

// steps returns the steps of a probe as operators see them.
func (m Member) steps(took []dialect.Step) []admin.ProbeStep {
	all := []admin.ProbeStep{}
	for _, s := range took {
		one := admin.ProbeStep{
			At:        s.At,
			Method:    s.Method,
			Revision:  s.Revision,
			Transport: config.TransportOf(m.Config),
			Took:      float64(s.Took.Microseconds()) / 1000,
			Found:     s.Found,
		}
		if s.SSE {
			one.Transport = "sse"
		}
		if s.Error != "" {
			one.Code, one.Error, one.Cause = s.Failed.String(), s.Error, s.Cause
		}
		all = append(all, one)
	}
	return all
}

// credentials describes the credential that the gateway uses at the server, without showing it.
func (m Member) credentials(status upstream.Status) admin.Credentials {
	c := admin.Credentials{Type: cmp.Or(m.Config.Auth.Type, outbound.TypeNone), Whose: "gateway", State: "unknown",
		Refused: status.UsersNeedLogin}
	switch {
	case c.Type == outbound.TypeNone:
		c.Whose, c.State = "nobody", "none"
	case m.Server.PerUser():
		c.Whose = "each user"
	case status.State == upstream.StateReady:
		c.State = "accepted"
	}
	if status.State == upstream.StateNeedsLogin {
		c.State = "refused"
	}
	return c
}

func (n Now) pinning(c upstream.Config) admin.Pinning {
	p := admin.Pinning{Mode: config.PinMode(n.Config, c)}
	if p.Mode == pinning.Off {
		return p
	}
	p.File = config.LockFile(n.Config)
	for _, guard := range n.Guards {
		if guard.Name() == c.Name {
			p.Waiting = guard.Pending()
		}
	}
	return p
}

// Withheld returns the items of a server that clients do not see.
func Withheld(view catalog.UpstreamView, status upstream.Status) (all []admin.WithheldItem) {
	for _, w := range view.Withheld {
		all = append(all, admin.WithheldItem{List: w.List, Name: w.Name, Reason: w.Reason})
	}
	for _, tool := range slices.Sorted(maps.Keys(status.DroppedTools)) {
		all = append(all, admin.WithheldItem{List: "tools", Name: tool, Reason: status.DroppedTools[tool]})
	}
	for _, skill := range slices.Sorted(maps.Keys(status.SkippedSkills)) {
		all = append(all, admin.WithheldItem{List: "skills", Name: skill, Reason: status.SkippedSkills[skill]})
	}
	return all
}

// toolPage returns some of the tools of a server.
func (n Now) toolPage(page admin.ToolPage) admin.Tools {
	all := n.Catalog.Tools(page.Upstream)
	found := admin.Tools{Total: len(all), Items: []admin.Tool{}}
	sizes := make(map[string]int)
	if page.ByTokens {
		for _, tool := range all {
			sizes[tool.Name] = Tokens(tool)
		}
	}
	slices.SortFunc(all, func(a, b mcp.Item) int {
		return cmp.Or(sizes[b.Name]-sizes[a.Name], strings.Compare(a.Name, b.Name))
	})
	from := min(page.From, len(all))
	to := min(from+page.Limit, len(all))
	for _, tool := range all[from:to] {
		title, _ := tool.Raw.Member("title")
		one := admin.Tool{Name: tool.Target.Name, Public: tool.Name, Title: title.Text()}
		one.Tokens, one.Short = n.measure(tool)
		found.Items = append(found.Items, one)
	}
	if to < len(all) {
		found.Next = to
	}
	return found
}

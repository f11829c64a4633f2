package operate

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/pinning"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// ServersPath is the path at which replicas tell each other to disable and enable servers.
const ServersPath = "/servers"

// Servers answers operators who ask for servers, and runs their actions. All fields are required.
type Servers struct {
	Book    *Book
	Replica string // that answers
	Now     func() Now
	// Rebuild applies the present lock file, and makes an upstream again for an operator; "" for none.
	Rebuild func(ctx context.Context, upstream, by string) error
	// Others sends a POST for Asked to all other replicas. It returns those that did not serve it.
	Others func(ctx context.Context, path string) (missing []string)
	Log    *slog.Logger
}

// Now is the configuration in force, and the parts made of it.
type Now struct {
	Config config.Config // with its defaults
	Status ConfigStatus
	Places map[string]string // of rules, file:line
	// Auth identifies callers, and Rules say what they may do.
	Auth      *auth.Auth
	Rules     *policy.Policy
	ViewUsers ViewUsers
	// Members are the upstreams, in the order of Catalog.Status. Lists answers lists as clients get them.
	Members []Member
	Catalog Catalog
	Lists   mcp.Handler
	// Described makes descriptions short.
	Described *disclosure.Disclosure
	Guards    []*pinning.Guard // of the upstreams that are pinned
	Lock      pin.Lock         // the approved definitions in force
}

// Catalog shows operators the offers of servers, and fetches them again. It answers no calls.
type Catalog interface {
	Status() []catalog.UpstreamView
	Tools(upstream string) []mcp.Item
	OwnLists(session string) []string
	Offered(*mcp.Call) []mcp.Item
	Everything(method string) []mcp.Item
	Refresh(upstream string)
}

// ViewUsers are the callers who may use each view, by its name.
type ViewUsers map[string]*policy.Audiences

// Refuse reports whether a caller may not use the view that they call.
func (u ViewUsers) Refuse(caller *mcp.Caller) bool {
	users := u[caller.View]
	return users != nil && users.First(caller) < 0
}

// Member is an upstream.
type Member struct {
	Server interface {
		Status() upstream.Status
		PerUser() bool
	}
	// MCP is the same; nil for a directory of skills.
	MCP    *upstream.Upstream
	Config upstream.Config
}

// member returns an upstream by its name, and its place.
func (n Now) member(name string) (m Member, at int, ok bool) {
	at = slices.IndexFunc(n.Members, func(m Member) bool { return m.Config.Name == name })
	if at < 0 {
		return m, at, false
	}
	return n.Members[at], at, true
}

// Act applies an action to a server. Errors are those of admin.Deps.Act.
func (s Servers) Act(ctx context.Context, a admin.Action) (done admin.Acted, err error) {
	m, _, ok := s.Now().member(a.Upstream)
	if !ok {
		return done, admin.ErrNoServer
	}
	done.Changed = true
	switch a.What {
	case admin.Disable, admin.Enable:
		done.Changed, done.Probe = s.toggle(a), m.probed()
		done.Missing = s.Others(ctx, ServersPath+"/"+url.PathEscape(a.Upstream)+"/"+a.What+"?by="+url.QueryEscape(a.By))
	case admin.Reconnect:
		if s.Book.Of(a.Upstream).Off() != nil {
			return done, admin.NotNow("the server is disabled: enable it first")
		}
		if m.MCP == nil {
			return done, admin.NotNow("it is a directory of skills, which has no connections: a probe reads it again")
		}
		if err := s.Rebuild(ctx, a.Upstream, a.By); err != nil {
			return done, err
		}
		m, _, _ = s.Now().member(a.Upstream)
		done.Probe, done.Failure, err = s.probe(ctx, m)
	default:
		done.Probe, done.Failure, err = s.probe(ctx, m)
	}
	if err != nil {
		return done, err
	}
	now := s.Now()
	m, at, ok := now.member(a.Upstream)
	if !ok {
		return done, admin.ErrNoServer // a reload has just removed it
	}
	done.Upstream = s.shown(now, m, now.Catalog.Status()[at])
	return done, nil
}

// probe probes a server, and fetches its lists again. failed is why the probe found nothing.
func (s Servers) probe(ctx context.Context, m Member) (steps []admin.ProbeStep, failed *admin.Failure, err error) {
	defer func() { s.Now().Catalog.Refresh(m.Config.Name) }()
	if m.MCP == nil {
		return m.steps(nil), nil, nil
	}
	took, err := m.MCP.Probe(ctx)
	steps = m.steps(took)
	known, ok := errors.AsType[*mcp.Error](err)
	switch {
	case errors.Is(err, upstream.ErrPerUser):
		return nil, nil, admin.NotNow(err.Error())
	case ok:
		return steps, &admin.Failure{At: time.Now(), Code: known.Name.String(), Stage: upstream.StageHandshake,
			Error: known.Message, Cause: known.Cause}, nil
	}
	return steps, nil, err
}

// toggle disables or enables a server here. It reports whether that was a change.
func (s Servers) toggle(a admin.Action) (changed bool) {
	known := s.Book.Of(a.Upstream)
	if a.What == admin.Disable {
		changed = known.Disable(a.By)
	} else {
		changed = known.Enable(a.By)
	}
	if changed {
		s.Now().Catalog.Refresh(a.Upstream)
	}
	return changed
}

// Asked disables or enables a server for an operator at another replica, by the path values name
// and what.
func (s Servers) Asked(w http.ResponseWriter, r *http.Request) {
	a := admin.Action{Upstream: r.PathValue("name"), What: r.PathValue("what"), By: r.URL.Query().Get("by")}
	if s.Book == nil || a.What != admin.Disable && a.What != admin.Enable {
		w.WriteHeader(http.StatusNotImplemented)
		return
	}
	if _, _, ok := s.Now().member(a.Upstream); !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if s.toggle(a) {
		s.Log.Info("an operator acted at another replica", "event", a.What, "operator", a.By, "upstream", a.Upstream)
	}
	w.WriteHeader(http.StatusNoContent)
}

// Approve approves definitions that were seen: it writes them into the present lock file, and applies
// it here. Other replicas read it as any new lock file. The error is that of admin.NotNow.
func (s Servers) Approve(wanted admin.PinApproval) (admin.Approved, error) {
	s.Book.approving.Lock()
	defer s.Book.approving.Unlock()
	now := s.Now()
	lock, err := config.ReadLock(now.Config)
	if err != nil {
		return admin.Approved{}, admin.NotNow("nothing was approved, because the lock file cannot be read: " + err.Error() +
			": gatehouse lock writes a new one")
	}
	var seen []pinning.Finding
	for _, guard := range now.Guards {
		seen = append(seen, guard.Found()...)
	}
	var all []pinning.Wanted
	for _, p := range wanted.Pins {
		m, _, ok := now.member(p.Upstream)
		all = append(all, pinning.Wanted{
			Upstream: p.Upstream,
			Kind:     pin.Kind(p.List),
			Name:     p.Name,
			Digest:   p.Digest,
			Keep:     wanted.Keep || ok && m.Server.PerUser(),
		})
	}
	file := config.LockFile(now.Config)
	if err := pinning.Approve(lock, file, seen, all); err != nil {
		return admin.Approved{}, admin.NotNow(err.Error())
	}
	if err := s.Rebuild(context.Background(), "", ""); err != nil {
		return admin.Approved{}, admin.NotNow(file + " is written, and not in force yet: " + err.Error())
	}
	return admin.Approved{Approved: len(all), File: file}, nil
}

// Pins returns the definitions that were seen and are not approved, of one upstream or, with "", of all.
func (s Servers) Pins(upstream string) (all []admin.Pin) {
	now := s.Now()
	for _, guard := range now.Guards {
		if upstream != "" && guard.Name() != upstream {
			continue
		}
		for _, f := range guard.Found() {
			all = append(all, admin.Pin{
				Upstream:   f.Upstream,
				List:       string(f.Kind),
				Name:       f.Name,
				New:        f.New,
				Differs:    f.Differ,
				Deceives:   f.Hidden,
				Hidden:     f.Blocked,
				Definition: f.Definition,
				Digest:     pin.DigestOf(f.Definition).String(),
				Diff:       f.Diff(now.Lock),
			})
		}
	}
	return all
}

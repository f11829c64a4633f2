package disclosure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Grants remembers the definitions that each client has seen. A key is Call.Session: a client's
// session or, for a client without sessions, a key that all requests of one program of one user
// share. Definitions are identified by a digest: a changed definition has no grant.
type Grants interface {
	// Grant records that the definitions, digests by tool, were shown. The grant is valid
	// for ttl or, if ttl is 0, as long as the session.
	Grant(ctx context.Context, key string, shown map[string]string, ttl time.Duration) error
	// Granted reports whether the definition was shown.
	Granted(ctx context.Context, key, tool, digest string) (bool, error)
}

// Deps are the dependencies of a Disclosure. Grants and Log are required.
type Deps struct {
	Grants Grants
	Log    *slog.Logger
	// Upstreams are all upstreams, by name.
	Upstreams map[string]Upstream
	// Clients are the modes of the clients that have one. Whose returns the index of a
	// caller's mode, -1 for none.
	Clients []string
	Whose   func(*mcp.Caller) int
	// Metrics count refusals; may be nil.
	Metrics *Metrics
}

// Disclosure is the stage of the pipeline. It is safe for concurrent use.
type Disclosure struct {
	grants    Grants
	log       *slog.Logger
	grant     time.Duration
	upstreams map[string]Upstream
	clients   []*profile // as Deps.Clients
	whose     func(*mcp.Caller) int
	others    *profile
	files     map[string]Description
	own       mcp.Item // describe_tools
	metrics   *Metrics
}

// New makes a Disclosure and reads the directory of descriptions.
func New(cfg Config, deps Deps) (*Disclosure, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("disclosure: %w", err)
	}
	if deps.Grants == nil || deps.Log == nil || len(deps.Clients) > 0 && deps.Whose == nil {
		return nil, errors.New("disclosure: grants and a log are needed, and who the clients are")
	}
	d := &Disclosure{
		grants: deps.Grants, log: deps.Log,
		grant: cfg.Grant, upstreams: deps.Upstreams, whose: deps.Whose, own: OwnTool(),
		others: newProfile(len(deps.Clients), "", cfg.Mode, deps.Upstreams), metrics: deps.Metrics,
	}
	if d.metrics == nil {
		d.metrics = NewMetrics(nil)
	}
	if d.grant == 0 {
		d.grant = defaultGrant
	}
	for i, mode := range deps.Clients {
		d.clients = append(d.clients, newProfile(i, mode, cfg.Mode, deps.Upstreams))
	}
	if cfg.Descriptions != "" {
		var err error
		if d.files, err = ReadDescriptions(cfg.Descriptions); err != nil {
			return nil, fmt.Errorf("disclosure: descriptions: %w", err)
		}
	}
	return d, nil
}

// idle reports whether no caller is shown short descriptions.
func (d *Disclosure) idle() bool {
	for _, p := range d.clients {
		if p != nil {
			return false
		}
	}
	return d.others == nil
}

// Middleware puts the stage in front of the guard. If everything is in mode full, it
// returns the guard itself.
func (d *Disclosure) Middleware(next mcp.Handler) mcp.Handler {
	if d.idle() {
		return next
	}
	return mcp.HandlerFunc(func(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
		p := d.profileOf(&c.Caller)
		if p == nil {
			return next.Handle(ctx, c)
		}
		s := stage{d, p, next}
		switch c.Method {
		case mcp.MethodToolsList:
			return s.listTools(ctx, c)
		case mcp.MethodToolsCall:
			return s.call(ctx, c)
		case mcp.MethodResourcesList, mcp.MethodResourceTemplatesList:
			return s.listResources(ctx, c)
		case mcp.MethodResourcesRead:
			return s.read(ctx, c)
		case mcp.MethodComplete:
			return s.complete(ctx, c)
		case mcp.MethodDiscover:
			return s.discover(ctx, c)
		}
		return next.Handle(ctx, c)
	})
}

// stage is the stage for one caller.
type stage struct {
	*Disclosure
	profile *profile
	next    mcp.Handler
}

// maxPages bounds the pages of a list.
const maxPages = 1000

// tools returns the tools of servers that the caller may use.
func (s stage) tools(ctx context.Context, c *mcp.Call) ([]mcp.Item, error) {
	all, err := mcp.ItemsOf(ctx, s.next, c.Listing(mcp.MethodToolsList), maxPages)
	if slices.ContainsFunc(all, isOurs) {
		all = slices.DeleteFunc(slices.Clone(all), isOurs)
	}
	return all, err
}

func isOurs(tool mcp.Item) bool { return tool.Name == ToolName }

// Tools lists the tools that a handler shows to a caller.
func (d *Disclosure) Tools(ctx context.Context, caller mcp.Caller, h mcp.Handler) ([]mcp.Item, error) {
	return stage{d, nil, h}.tools(ctx, &mcp.Call{Caller: caller})
}

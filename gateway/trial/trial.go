package trial

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/diagnose"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/operate"
	"github.com/gatehouse-mcp/gatehouse/internal/egress"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/skilldir"
)

// Inspect connects to the enabled upstreams of a valid configuration. It waits until each has answered
// or failed, or ctx ends, calls look, and closes everything. collect takes all definitions, pinned or
// not; nil for checking them as a gateway that serves does. Errors: those of making a gateway, of look
// and of closing.
type Inspect func(ctx context.Context, cfg config.Config, collect func(upstream string, d pin.Definition),
	look func(Seen) error) error

// Seen is the knowledge of a gateway when the upstreams have answered.
type Seen struct {
	Config    config.Config              // with defaults
	Servers   []Server                   // those that are enabled, in the order of the configuration
	Surface   diagnose.Surface           // what clients see
	Targets   []mcp.Target               // all listed items
	Kept      func(view string) []string // the names that a view could not shorten
	Described *disclosure.Disclosure
	Lists     mcp.Handler // answers the gateway's own requests
}

// Server is one upstream.
type Server struct {
	Config upstream.Config
	Status upstream.Status
	Listed catalog.UpstreamView
	// Certificate is the server's, nil if it showed none that is valid. Proxy is the address of the
	// proxy for it, "" for none.
	Certificate *x509.Certificate
	Proxy       string
}

// Report is the result of connecting to one upstream.
type Report struct {
	Name  string `json:"name"`
	State string `json:"state"` // "up", "failing", "down", "connecting" or "per user"
	// Revision is the protocol revision. Server is the name and version that the server gives
	// itself. Both are "" if it did not answer.
	Revision string `json:"revision,omitempty"`
	Server   string `json:"server,omitempty"`
	// Numbers of the offered items.
	Tools     int `json:"tools"`
	Prompts   int `json:"prompts"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Skills    int `json:"skills"`
	// Withheld are the items that are not offered, and why.
	Withheld []admin.WithheldItem `json:"withheld,omitempty"`
	// Hint describes a probable mistake, "" for none.
	Hint string `json:"hint,omitempty"`
	// Certificate describes the server's certificate: its first name, its end and its issuer; "" if
	// the server showed none that is valid.
	Certificate string `json:"certificate,omitempty"`
	// Proxy is the address of the proxy through which it is reached, "" for none.
	Proxy string `json:"proxy,omitempty"`
	// Error is the reason why the upstream cannot be used, "" if it can.
	Error string `json:"error,omitempty"`
	// Login says that it refuses requests without a credential, or with another one.
	Login bool `json:"login,omitempty"`
}

// Connect connects to all enabled upstreams of a valid configuration. doubts are policy patterns that
// match nothing that was found, what known clients cut or refuse, and what may deceive people or
// models, each prefixed with the path of its key (see config.Locate).
//
// shown is the content of the named view, if any, for a user who may use all of it.
func Connect(ctx context.Context, inspect Inspect, cfg config.Config, view string) (reports []Report,
	shown []catalog.Shown, doubts []error, err error) {
	if _, err := config.ViewNamed(cfg, view); err != nil {
		return nil, nil, nil, err
	}
	err = inspect(ctx, cfg, nil, func(s Seen) error {
		reports, doubts = s.reports(), slices.Concat(s.idleRules(), s.doubts())
		if view != "" {
			shown = s.Surface.Shown(view)
		}
		return nil
	})
	return reports, shown, doubts, err
}

// doubts returns what known clients cut or refuse of the tools, and what may deceive people or models.
func (s Seen) doubts() (doubts []error) {
	all := 0
	for i, u := range s.Config.Upstreams {
		if !config.Enabled(u) {
			continue
		}
		tools := s.Surface.Tools(u.Name)
		all += len(tools)
		for _, doubt := range clients.Doubts(tools, s.Config.ShowsInFull(u)) {
			doubts = append(doubts, fmt.Errorf("%s: %s", config.UpstreamKey(i, u), doubt))
		}
	}
	for _, doubt := range clients.TooMany(all) {
		doubts = append(doubts, fmt.Errorf("upstreams: %s", doubt))
	}
	for i, v := range s.Config.Views {
		for _, list := range s.Surface.Shown(v.Name) {
			if list.List != mcp.KindTools {
				continue
			}
			for _, doubt := range clients.TooMany(len(list.Names)) {
				doubts = append(doubts, fmt.Errorf("%s: show: %s", config.ViewKey(i, v), doubt))
			}
		}
	}
	for _, d := range s.Surface.Spoofs() {
		doubts = append(doubts, d)
	}
	return doubts
}

// Skills reads the skill directories of a configuration. It makes no connections.
func Skills(ctx context.Context, cfg config.Config) (reports []Report, err error) {
	for _, u := range cfg.Upstreams {
		if !config.Enabled(u) || u.Skills == "" {
			continue
		}
		d, err := skilldir.New(u, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		r := Report{Name: u.Name, State: string(catalog.StateUp)}
		if r.Skills, err = d.Check(ctx); err != nil {
			r.State, r.Error = string(catalog.StateDown), d.Status().Last.Error
		} else if r.Skills == 0 {
			r.Hint = noSkills
		}
		r.Withheld = operate.Withheld(catalog.UpstreamView{}, d.Status())
		reports = append(reports, r)
	}
	return reports, nil
}

// noSkills is the hint for a skill directory without any skills.
const noSkills = "no directory in it, or below, is a skill: one is named like the skill and has a " + mcp.SkillFile

// noTools is the hint for a server that declares no tools.
const noTools = "it declares no tools, so nobody asks it for any: a server that has tools declares the capability tools"

// reports combines what the catalog and the upstreams know.
func (s Seen) reports() []Report {
	reports := make([]Report, len(s.Servers))
	for i, server := range s.Servers {
		view, status := server.Listed, server.Status
		r := Report{
			Name:      view.Name,
			State:     string(view.State),
			Revision:  status.Revision,
			Server:    strings.TrimSpace(status.ServerName + " " + status.ServerVersion),
			Tools:     view.Tools,
			Prompts:   view.Prompts,
			Resources: view.Resources,
			Templates: view.ResourceTemplates,
			Skills:    view.Skills,
			Withheld:  operate.Withheld(view, status),
			Login:     status.State == upstream.StateNeedsLogin,
			Proxy:     server.Proxy,
		}
		if server.Certificate != nil {
			r.Certificate = egress.Describe(server.Certificate)
		}
		if view.LastError != "" {
			r.Error = fmt.Sprintf("%s (%s)", view.LastError, view.Failed)
		}
		if view.State == catalog.StateConnecting {
			r.Error = config.Late(server.Config)
		}
		switch {
		case view.State != catalog.StateUp:
		case status.Transport == upstream.TransportSkills:
			if r.Skills == 0 {
				r.Hint = noSkills
			}
		case status.Capabilities != nil && status.Capabilities.At("tools").IsNull():
			r.Hint = noTools
		}
		reports[i] = r
	}
	return reports
}

// idleRules returns the patterns that match no listed item, and the names that views could not
// shorten.
func (s Seen) idleRules() (idle []error) {
	var unheard []string
	for _, server := range s.Servers {
		if server.Listed.State != catalog.StateUp {
			unheard = append(unheard, server.Listed.Name)
		}
	}
	for _, one := range s.Config.Policy.Idle(s.Targets, unheard) {
		idle = append(idle, fmt.Errorf("policy: %w", one))
	}
	for i, v := range s.Config.Views {
		for _, one := range v.Rule().Idle(s.Config.Rules(), s.Targets, unheard) {
			idle = append(idle, fmt.Errorf("%s: %w", config.ViewKey(i, v), one))
		}
		if kept := s.Kept(v.Name); len(kept) > 0 {
			idle = append(idle,
				fmt.Errorf("%s: drop_prefixes: %s: their prefixes are kept, since without them the names could stand for something else, too", config.ViewKey(i, v), strings.Join(kept, ", ")))
		}
	}
	return idle
}

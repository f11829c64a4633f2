package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/catalog"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/servers"
	"github.com/gatehouse-mcp/gatehouse/gateway/settings"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/pin"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
	"github.com/gatehouse-mcp/gatehouse/upstream/skilldir"
)

// UpstreamReport is the result of connecting to one upstream.
type UpstreamReport struct {
	Name  string
	State string // "up", "failing", "down", "connecting" or "per user"
	// Revision is the protocol revision. Server is the name and version that the server gives
	// itself. Both are "" if it did not answer.
	Revision string
	Server   string
	// Numbers of the things that are offered.
	Tools, Prompts, Resources, Templates, Skills int
	// Withheld are the things that are not offered, and why.
	Withheld []admin.WithheldItem
	// Hint says what is probably not meant, "" for nothing.
	Hint string
	// Error is why the upstream cannot be used, "" if it can.
	Error string
}

// Connect connects to all enabled upstreams of a valid configuration. It waits until each has
// answered or failed, or ctx ends, and closes everything again. It serves nothing. doubts are
// policy patterns that match nothing that was found, what known clients cut or refuse, and what may
// deceive people or models, each prefixed with the path of its key (see Locate).
//
// shown is what a view shows, if one is named, to a user who may use all of it.
func Connect(ctx context.Context, cfg config.Config, view, version string, log *slog.Logger) (reports []UpstreamReport, shown []catalog.Shown, doubts []error, err error) {
	if _, err := config.ViewNamed(cfg, view); err != nil {
		return nil, nil, nil, err
	}
	err = inspect(ctx, cfg, version, log, nil, func(g *graph) error {
		reports, doubts = g.reports(), slices.Concat(g.idleRules(), g.doubts())
		if view != "" {
			shown = g.catalog.Shown(view)
		}
		return nil
	})
	return reports, shown, doubts, err
}

// doubts returns what known clients cut or refuse of the tools, and what may deceive people or models.
func (g *graph) doubts() (doubts []error) {
	all := 0
	for i, u := range g.cfg.Upstreams {
		if !config.Enabled(u) {
			continue
		}
		tools := g.catalog.Tools(u.Name)
		all += len(tools)
		for _, doubt := range clients.Doubts(tools, g.cfg.ShowsInFull(u)) {
			doubts = append(doubts, fmt.Errorf("%s: %s", config.UpstreamKey(i, u), doubt))
		}
	}
	for _, doubt := range clients.TooMany(all) {
		doubts = append(doubts, fmt.Errorf("upstreams: %s", doubt))
	}
	for i, v := range g.cfg.Views {
		for _, list := range g.catalog.Shown(v.Name) {
			if list.List != mcp.KindTools {
				continue
			}
			for _, doubt := range clients.TooMany(len(list.Names)) {
				doubts = append(doubts, fmt.Errorf("%s: show: %s", config.ViewKey(i, v), doubt))
			}
		}
	}
	for _, d := range g.sight().Deceits() {
		doubts = append(doubts, d)
	}
	return doubts
}

// inspect connects to the upstreams of a valid configuration. It waits until each has answered
// or failed, or ctx ends, calls look, and closes everything. collect takes all definitions, pinned
// or not; nil for guards.
func inspect(ctx context.Context, cfg config.Config, version string, log *slog.Logger, collect func(string, pin.Definition), look func(*graph) error) error {
	with, err := newServices(inMemory(newMetrics(version, false)), version, nil, nil, log)
	if err != nil {
		return err
	}
	with.collect = collect
	g, err := newGraph(cfg.WithDefaults(), with, nil)
	if err != nil {
		return err
	}
	g.watch(nil)
	g.catalog.WaitFirst(ctx) // an upstream that has not answered by then is reported as such
	err = look(g)

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, g.stop(closing), closeAll(closing, g.members))
}

// CheckSkills reads the skill directories of a configuration. It makes no connections.
func CheckSkills(ctx context.Context, cfg config.Config) (reports []UpstreamReport, err error) {
	for _, u := range cfg.Upstreams {
		if !config.Enabled(u) || u.Skills == "" {
			continue
		}
		d, err := skilldir.New(u, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, err
		}
		r := UpstreamReport{Name: u.Name, State: string(catalog.StateUp)}
		if r.Skills, err = d.Check(ctx); err != nil {
			r.State, r.Error = string(catalog.StateDown), d.Status().Last.Error
		} else if r.Skills == 0 {
			r.Hint = noSkills
		}
		r.Withheld = servers.Withheld(catalog.UpstreamView{}, d.Status())
		reports = append(reports, r)
	}
	return reports, nil
}

// noSkills is the hint for a skill directory without any skills.
const noSkills = "no directory in it, or below, is a skill: one is named like the skill and has a " + mcp.SkillFile

// reports combines what the catalog and the upstreams know.
func (g *graph) reports() []UpstreamReport {
	views := g.catalog.Status()
	reports := make([]UpstreamReport, len(views))
	for i, view := range views { // in the order of the upstreams
		status := g.members[i].Status()
		r := UpstreamReport{
			Name:      view.Name,
			State:     string(view.State),
			Revision:  status.Revision,
			Server:    strings.TrimSpace(status.ServerName + " " + status.ServerVersion),
			Tools:     view.Tools,
			Prompts:   view.Prompts,
			Resources: view.Resources,
			Templates: view.ResourceTemplates,
			Skills:    view.Skills,
			Withheld:  servers.Withheld(view, status),
			Error:     view.LastError,
		}
		if view.State == catalog.StateConnecting {
			r.Error = config.Late(g.members[i].cfg)
		}
		if r.Skills == 0 && view.State == catalog.StateUp && status.Transport == upstream.TransportSkills {
			r.Hint = noSkills
		}
		reports[i] = r
	}
	return reports
}

// idleRules returns the patterns that match nothing of what the upstreams list, and the names that
// views could not shorten.
func (g *graph) idleRules() (idle []error) {
	var unheard []string
	for _, view := range g.catalog.Status() {
		if view.State != catalog.StateUp {
			unheard = append(unheard, view.Name)
		}
	}
	known := g.catalog.Targets()
	for _, one := range g.cfg.Policy.Idle(known, unheard) {
		idle = append(idle, fmt.Errorf("policy: %w", one))
	}
	for i, v := range g.cfg.Views {
		for _, one := range v.Rule().Idle(g.cfg.Rules(), known, unheard) {
			idle = append(idle, fmt.Errorf("%s: %w", config.ViewKey(i, v), one))
		}
		if kept := g.catalog.Kept(v.Name); len(kept) > 0 {
			idle = append(idle, fmt.Errorf("%s: drop_prefixes: %s: their prefixes are kept, since without them the names could stand for something else, too", config.ViewKey(i, v), strings.Join(kept, ", ")))
		}
	}
	return idle
}

// TokenReport estimates how much of a model's context the tools of one upstream take.
type TokenReport struct {
	Name  string
	Tools int
	// Full and Short are the estimated tokens of their descriptions, in full and in short: see
	// servers.Tokens.
	Full, Short int
	// Problem is why the numbers are unknown, "" if they are known.
	Problem string
}

// Tokens connects to all enabled upstreams, as Connect does. It reports what their tools take
// in each mode of disclosure, whichever mode is configured, and what the gateway's own tool
// takes in mode progressive. If a view is named, only its tools count, as it shows them.
func Tokens(ctx context.Context, cfg config.Config, view, version string, log *slog.Logger) (reports []TokenReport, own int, err error) {
	if _, err := config.ViewNamed(cfg, view); err != nil {
		return nil, 0, err
	}
	err = inspect(ctx, open(cfg), version, log, nil, func(g *graph) error {
		reports, err = g.tokens(ctx, view)
		return err
	})
	return reports, servers.Tokens(disclosure.OwnTool()), err
}

// open returns the configuration for a caller who may see everything, and sees it in full.
func open(c config.Config) config.Config {
	c.Auth, c.Policy, c.Limits = auth.Config{}, policy.Config{Default: policy.DefaultAllow}, nil
	c.Disclosure.Mode, c.Disclosure.Clients = disclosure.ModeFull, nil
	c.Upstreams = slices.Clone(c.Upstreams)
	for i := range c.Upstreams {
		c.Upstreams[i].Disclosure.Mode = ""
	}
	c.Views = slices.Clone(c.Views)
	for i := range c.Views {
		c.Views[i].Who, c.Views[i].Disclosure.Mode = policy.Who{}, ""
	}
	return c
}

func (g *graph) tokens(ctx context.Context, view string) ([]TokenReport, error) {
	reports := make([]TokenReport, len(g.members))
	places := make(map[string]int)
	for i, view := range g.catalog.Status() { // in the order of the upstreams
		places[view.Name] = i
		reports[i].Name = view.Name
		switch {
		case view.State == catalog.StatePerUser:
			reports[i].Problem = "has tools for each user, and is asked for none"
		case view.State == catalog.StateConnecting:
			reports[i].Problem = config.Late(g.members[i].cfg)
		case view.State != catalog.StateUp:
			reports[i].Problem = view.LastError
		}
	}
	tools, err := g.described.Tools(ctx, mcp.Caller{View: view}, g.way.Lists)
	if err != nil {
		return nil, fmt.Errorf("listing the tools: %w", err)
	}
	for _, tool := range tools {
		r := &reports[places[tool.Target.Upstream]]
		r.Tools++
		r.Full += servers.Tokens(tool)
		r.Short += servers.Tokens(g.described.Short(tool))
	}
	return reports, nil
}

// Try connects to the upstreams of a text, or to one of them, as Connect does. Relative paths begin
// at the directory of file; env has the values of references.
func Try(ctx context.Context, file string, text []byte, only string, env func(string) (string, bool), version string, log *slog.Logger) (reports []UpstreamReport, doubts []config.Problem, err error) {
	l, err := config.ReadText(file, text, nil, env)
	if err != nil {
		return nil, nil, err
	}
	return try(ctx, l.Config, only, version, log)
}

// tryBlindly is Try for the text of somebody who may use neither the environment and the files of
// this machine, nor its programs, nor the services of the host itself, but for those of a server that is
// configured.
func tryBlindly(ctx context.Context, text []byte, only string, configured []upstream.Config, env func(string) (string, bool), version string, log *slog.Logger) (reports []UpstreamReport, doubts []config.Problem, err error) {
	l, err := config.ReadBlindly("", text, env)
	if err != nil {
		return nil, nil, err
	}
	var found problems.List
	const needs = "needs admin.console.save: true, since whoever tries it could run anything here; \"gatehouse check --connect\" tries it on the machine"
	for i, u := range l.Config.Upstreams {
		if !config.Enabled(u) || only != "" && u.Name != only {
			continue
		}
		path := config.UpstreamKey(i, u)
		found.When(len(u.Command) > 0, "%s: command: to try a program %s", path, needs)
		found.When(u.Skills != "", "%s: skills: to read a directory %s", path, needs)
		for key, at := range map[string]string{"url": u.URL, "auth: token_url": u.Auth.TokenURL} {
			isIt := func(c upstream.Config) bool { return c.URL == u.URL && c.Auth.TokenURL == u.Auth.TokenURL }
			if host, ours := hostService(at); ours && !slices.ContainsFunc(configured, isIt) {
				found.Add("%s: %s: %s is an address of the services of the host or its cloud: only a server of the configuration that holds is tried there; with admin.console.save: true, any", path, key, host)
			}
		}
		for _, reference := range configtext.References(text, "upstreams", i) {
			name, isVariable := strings.CutPrefix(reference, "env:")
			if _, known := env(name); !isVariable || !known {
				found.Add("%s: ${%s}: to read it %s; or give a value for it", path, reference, needs)
			}
		}
	}
	if len(found) > 0 {
		return nil, nil, strictyaml.Unplaced(found.Err())
	}
	return try(ctx, l.Config, only, version, log)
}

// hostService returns the address in a URL if services of the host itself are there. Where names lead is
// looked at when they are dialled.
func hostService(at string) (host string, ours bool) {
	u, err := url.Parse(at)
	if err != nil {
		return "", false // the check of the configuration says so
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname(), err == nil && safehttp.HostService(addr)
}

// try connects to upstreams, without anything else that a configuration says.
func try(ctx context.Context, all config.Config, only, version string, log *slog.Logger) (reports []UpstreamReport, doubts []config.Problem, err error) {
	cfg := config.Config{Naming: all.Naming, Upstreams: slices.Clone(all.Upstreams)}
	cfg.Naming.Instructions = ""
	no, has := false, false
	for i, u := range cfg.Upstreams {
		if only != "" && u.Name != only {
			cfg.Upstreams[i].Enabled = &no
		}
		has = has || config.Enabled(cfg.Upstreams[i])
	}
	if !has {
		return nil, nil, strictyaml.Unplaced(errors.New("there is no server to try, or it is not enabled"))
	}
	err = inspect(ctx, cfg, version, log, nil, func(g *graph) error {
		reports = g.reports()
		if found := g.doubts(); len(found) > 0 {
			doubts = strictyaml.Unplaced(errors.Join(found...)).Problems
		}
		return nil
	})
	return reports, doubts, err
}

// probed tries servers. Where operators may not change the file, what they try reads neither files nor
// the environment of this machine, starts no programs, and reaches no services of the host itself.
// Other URLs are as for any upstream.
func probed(ctx context.Context, g *Gateway, p admin.Attempt) (admin.Probed, error) {
	given := func(name string) (string, bool) { value, has := p.Values[name]; return value, has }
	known := func(name string) (string, bool) {
		if value, has := given(name); has {
			return value, has
		}
		return os.LookupEnv(name)
	}
	text, version, log := []byte(p.Config), g.services.version, slog.New(slog.DiscardHandler)
	if problems := settings.MaskProblem(text); problems != nil {
		return admin.Probed{}, &admin.BadDraft{Problems: problems}
	}
	var reports []UpstreamReport
	var doubts []config.Problem
	var err error
	if g.file != nil && g.graph().cfg.Admin.Console.Save {
		reports, doubts, err = Try(ctx, g.file.Path, text, p.Server, known, version, log)
	} else {
		reports, doubts, err = tryBlindly(ctx, text, p.Server, g.graph().cfg.Upstreams, given, version, log)
	}
	if bad, ok := errors.AsType[*config.Error](err); ok {
		return admin.Probed{}, &admin.BadDraft{Problems: settings.Problems(bad)}
	}
	if err != nil {
		return admin.Probed{}, err
	}
	found := admin.Probed{Warnings: settings.Problems(&config.Error{Problems: doubts})}
	for _, r := range reports {
		one := admin.ProbedServer{Name: r.Name, State: r.State, Server: r.Server, Revision: r.Revision, Tools: r.Tools, Prompts: r.Prompts, Resources: r.Resources, Skills: r.Skills, Hint: r.Hint, Error: r.Error}
		for _, w := range r.Withheld {
			one.Withheld = append(one.Withheld, fmt.Sprintf("%s %q: %s", w.List, w.Name, w.Reason))
		}
		found.Servers = append(found.Servers, one)
	}
	return found, nil
}

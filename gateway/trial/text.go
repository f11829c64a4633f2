package trial

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/gateway/configtext"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Text connects to the upstreams of a text, or to the one that only names. Relative paths begin at the
// directory of file; env has the values of references. Errors: *config.Error for a text that is no
// valid configuration, and those of Inspect.
func Text(ctx context.Context, inspect Inspect, file string, text []byte, only string,
	env func(string) (string, bool)) (reports []Report, doubts []config.Problem, err error) {
	l, err := config.ReadText(file, text, nil, env)
	if err != nil {
		return nil, nil, err
	}
	return try(ctx, inspect, l.Config, only)
}

// blindly is Text for a person who may use neither the environment and the files of this machine, nor
// its programs, nor the services of the host itself, except those of a configured server.
func blindly(ctx context.Context, inspect Inspect, text []byte, only string, configured []upstream.Config,
	env func(string) (string, bool)) (reports []Report, doubts []config.Problem, err error) {
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
		found.When(!u.TLS.Files().IsZero(), "%s: tls: to read a file %s", path, needs)
		proxy := string(cmp.Or(u.Proxy, l.Config.Proxy))
		for key, at := range map[string]string{"url": u.URL, "auth: token_url": u.Auth.TokenURL, "proxy": proxy} {
			isIt := func(c upstream.Config) bool {
				return c.URL == u.URL && c.Auth.TokenURL == u.Auth.TokenURL && string(c.Proxy) == proxy
			}
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
	return try(ctx, inspect, l.Config, only)
}

// hostService returns the address in a URL if services of the host itself are there. Names are checked
// when they are dialled.
func hostService(at string) (host string, ours bool) {
	u, err := url.Parse(at)
	if err != nil {
		return "", false // the check of the configuration reports it
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname(), err == nil && safehttp.HostService(addr)
}

// try connects to upstreams, ignoring the rest of a configuration.
func try(ctx context.Context, inspect Inspect, all config.Config, only string) (reports []Report,
	doubts []config.Problem, err error) {
	cfg := config.Config{Proxy: all.Proxy, Naming: all.Naming, Upstreams: slices.Clone(all.Upstreams)}
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
	err = inspect(ctx, cfg, nil, func(s Seen) error {
		reports = s.reports()
		if found := s.doubts(); len(found) > 0 {
			doubts = strictyaml.Unplaced(errors.Join(found...)).Problems
		}
		return nil
	})
	return reports, doubts, err
}

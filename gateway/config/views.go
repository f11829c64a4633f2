package config

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/accounts"
	"github.com/gatehouse-mcp/gatehouse/gateway/clients"
	"github.com/gatehouse-mcp/gatehouse/gateway/feature/disclosure"
	"github.com/gatehouse-mcp/gatehouse/gateway/front"
	"github.com/gatehouse-mcp/gatehouse/gateway/front/sse2024"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/policy"
)

// maxViews bounds the list of views: each has routes, and lists of its own.
const maxViews = 100

// ViewPath returns the path of a view's endpoint.
func ViewPath(c Config, v view.Config) string {
	if v.Path != "" {
		return v.Path
	}
	return path.Join(c.Path(), v.Name)
}

// ViewURLs returns the URLs of the views' endpoints by name.
func ViewURLs(c Config) map[string]string {
	u, err := url.Parse(c.PublicURL)
	if err != nil || len(c.Views) == 0 {
		return nil
	}
	urls := make(map[string]string, len(c.Views))
	for _, v := range c.Views {
		urls[v.Name] = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: ViewPath(c, v)}).String()
	}
	return urls
}

func (c Config) viewNames() (names []string) {
	for _, v := range c.Views {
		names = append(names, v.Name)
	}
	return names
}

// ViewRules returns the views as policy applies them.
func ViewRules(c Config) (rules []policy.View) {
	for _, v := range c.Views {
		rules = append(rules, v.Rule())
	}
	return rules
}

func checkViews(c Config, found *problems.List) {
	if len(c.Views) > maxViews {
		found.Add("views: %d are more than %d", len(c.Views), maxViews)
		return
	}
	taken := map[string]string{c.Path(): "the endpoint"} // the owners of paths
	if sse := c.SSEPath(); sse != front.SSEOff {
		taken[sse], taken[sse2024.Messages(sse)] = "HTTP+SSE", "HTTP+SSE"
	}
	names := make(map[string]int)
	for i, v := range c.Views {
		path := ViewKey(i, v)
		found.At(path, v.Validate(), v.Who.CheckIssuers(c.CallerIssuers()))
		found.At(path+": disclosure.mode", disclosure.CheckMode(v.Disclosure.Mode))
		if first, twice := names[v.Name]; twice {
			found.Add("%s: name: views[%d] is called %q already", path, first, v.Name)
			continue
		}
		names[v.Name] = i
		if v.Name == "" && v.Path == "" {
			continue
		}
		at := ViewPath(c, v)
		switch owner := taken[at]; {
		case !strings.HasPrefix(at, "/") || strings.HasSuffix(at, "/") || !plainPath.MatchString(at):
			found.Add("%s: path: %q: want a path of segments of letters, digits and -._~, such as /mcp/sales", path, at)
		case sse2024.Has(at):
			found.Add("%s: path: %q: paths that end like this are for HTTP+SSE; choose another", path, at)
		case c.Auth.Server.Enabled && ofServer(at):
			found.Add("%s: path: %q: auth.server has it: choose another", path, at)
		case HasAccounts(c.Upstreams) && accounts.Serves(at):
			found.Add("%s: path: %q: the pages of users' accounts at servers are there: choose another", path, at)
		case owner != "":
			found.Add("%s: path: %q: %s is there already", path, at, owner)
		case c.SSEPath() != front.SSEOff && taken[sse2024.OfView(at)] != "":
			found.Add("%s: path: %q: its path for HTTP+SSE, %s, is taken: choose another, or another http.sse_path", path, at,
				sse2024.OfView(at))
		default:
			taken[at] = path
		}
	}
}

// viewDoubts returns probable mistakes in views.
func viewDoubts(c Config) (doubts problems.List) {
	for i, v := range c.Views {
		doubts.At(ViewKey(i, v), v.Rule().Doubts(c.UpstreamNames())...)
		for _, doubt := range clients.LongInstructions(len(v.Instructions)) {
			doubts.Add("%s: instructions: %s", ViewKey(i, v), doubt)
		}
		for _, target := range slices.Sorted(maps.Keys(v.Descriptions)) {
			for _, doubt := range clients.LongDescription(len(v.Descriptions[target])) {
				doubts.Add("%s: descriptions[%s]: %s", ViewKey(i, v), target, doubt)
			}
		}
	}
	return doubts
}

// ViewKey returns the path of the key of a view.
func ViewKey(i int, v view.Config) string {
	if v.Name == "" {
		return fmt.Sprintf("views[%d]", i)
	}
	return fmt.Sprintf("views[%d] (%s)", i, v.Name)
}

// ViewNamed returns the configuration of a view, nothing for "", the gateway's own endpoint.
func ViewNamed(c Config, name string) (view.Config, error) {
	if name == "" {
		return view.Config{}, nil
	}
	i := slices.IndexFunc(c.Views, func(v view.Config) bool { return v.Name == name })
	if i < 0 {
		return view.Config{}, fmt.Errorf("view %q: the configuration has no view of this name", name)
	}
	return c.Views[i], nil
}

// ShortTarget returns the target of a name without a prefix at a view that drops prefixes, as far
// as the configuration tells: exactly one upstream could show it.
func ShortTarget(c Config, name, kind, short string) (found mcp.Target, ok bool) {
	cfg, err := ViewNamed(c, name)
	if err != nil || !cfg.DropPrefixes || kind != mcp.KindTools && kind != mcp.KindPrompts {
		return found, false
	}
	show, err := policy.NewSelection(cfg.Show)
	if err != nil {
		return found, false
	}
	candidates := 0
	for _, u := range c.Upstreams {
		if t := (mcp.Target{Kind: kind, Upstream: u.Name, Name: short}); Enabled(u) && show.Has(t) {
			found = t
			candidates++
		}
	}
	return found, candidates == 1
}

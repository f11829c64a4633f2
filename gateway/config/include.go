package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth/outbound"
	"github.com/gatehouse-mcp/gatehouse/gateway/view"
	"github.com/gatehouse-mcp/gatehouse/internal/loopback"
	"github.com/gatehouse-mcp/gatehouse/internal/problems"
	"github.com/gatehouse-mcp/gatehouse/internal/safehttp"
	"github.com/gatehouse-mcp/gatehouse/internal/strictyaml"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// maxIncluded bounds the files that one configuration includes.
const maxIncluded = 500

// Team says what the included files of a team may have. Where there are teams, each included file is one
// team's.
type Team struct {
	// Name is the team's name. Names of its rules and views are this name, or begin with it and a '-'.
	// Required and unique.
	Name string `yaml:"name"`
	// Files are the names of its files, without directories; * stands for any text. Required.
	Files []string `yaml:"files"`
	// Upstreams are the names that its upstreams may have; * stands for any text. Its rules and views are
	// about these alone. Default: the name of the team, and what begins with it and a '-'.
	Upstreams []string `yaml:"upstreams"`
	// Secrets are the references that its files may have, such as env:CRM_* and file:/run/secrets/crm/*;
	// * stands for any text without a slash. Default none.
	Secrets []string `yaml:"secrets"`
	// Local lets its upstreams be programs and directories of this machine, which then reach what the
	// gateway does. Default: servers at a URL alone.
	Local bool `yaml:"local"`
}

// fragment is what an included file may have.
type fragment struct {
	// Upstreams follow those of the file that includes it.
	Upstreams []upstream.Config `yaml:"upstreams"`
	// Policy has rules alone.
	Policy struct {
		Rules []policy.Rule `yaml:"rules"`
	} `yaml:"policy"`
	Views []view.Config `yaml:"views"`
}

// named are the names that a team may give: its own, and what begins with it.
func (t Team) named(name string) bool { return name == t.Name || strings.HasPrefix(name, t.Name+"-") }

// upstreams returns the patterns of the team's upstreams.
func (t Team) upstreams() []string {
	if t.Upstreams != nil {
		return t.Upstreams
	}
	return []string{t.Name, t.Name + "-*"}
}

// gives reports whether an upstream of the team may have a name.
func (t Team) gives(name string) bool {
	return slices.ContainsFunc(t.upstreams(), func(p string) bool { return matches(p, name) })
}

// meets reports whether an upstream may have a name of both teams.
func (t Team) meets(other Team) bool {
	return slices.ContainsFunc(t.upstreams(), func(mine string) bool {
		return slices.ContainsFunc(other.upstreams(), func(theirs string) bool { return policy.Overlap(mine, theirs) })
	})
}

// owns reports whether a file is the team's.
func (t Team) owns(file string) bool {
	return slices.ContainsFunc(t.Files, func(pattern string) bool { return matches(pattern, filepath.Base(file)) })
}

// owners returns the teams with a file.
func owners(teams []Team, file string) []Team {
	return slices.DeleteFunc(slices.Clone(teams), func(t Team) bool { return !t.owns(file) })
}

// matches reports whether a text fits a pattern, in which * stands for anything but a slash.
func matches(pattern, text string) bool {
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}

// permit reports whether the team's files may have a reference.
func (t Team) permit(reference string) bool {
	return slices.ContainsFunc(t.Secrets, func(pattern string) bool { return matches(pattern, reference) })
}

// check returns what a file has that its team may not.
func (t Team) check(f fragment) error {
	var found problems.List
	for i, u := range f.Upstreams {
		at := UpstreamKey(i, u)
		found.When(!t.gives(u.Name),
			"%s: name: the team %s may have %s", at, t.Name, strings.Join(t.upstreams(), ", "))
		found.When(!t.Local && (len(u.Command) > 0 || u.Skills != ""),
			"%s: the team %s may have servers at a url alone: local would let it have programs and directories", at, t.Name)
		found.When(u.Prefix != nil, "%s: prefix: only the main file gives prefixes, which may be those of other upstreams", at)
		for key, to := range map[string]string{"url": u.URL, "auth: token_url": u.Auth.TokenURL,
			"auth: authorization_server": u.Auth.AuthorizationServer, "proxy": string(u.Proxy)} {
			found.When(!t.Local && ofHost(to), "%s: %s: the team %s may name no service of this machine or its cloud", at,
				key, t.Name)
		}
		for _, file := range u.TLS.Paths() {
			found.When(*file != "" && !t.permit("file:"+filepath.Clean(*file)),
				"%s: tls: %s: is not among the team's secrets: want a whole path that file:... of them names", at, *file)
		}
		found.When(u.Auth.Type == outbound.TypeTokenExchange || u.Auth.Type == outbound.TypeIDJAG,
			"%s: auth: type: %s sends tokens of users to a server that the file names: only the main file may do that",
			at, u.Auth.Type)
		found.When(u.Pinning != upstream.Pinning{}, "%s: pinning: only the main file decides on it", at)
	}
	for i, r := range f.Policy.Rules {
		at := fmt.Sprintf("policy.rules[%d]", i)
		found.When(!t.named(r.Name), "%s: name: want %s, or a name that begins with %s-", at, t.Name, t.Name)
		for key, patterns := range map[string][]string{"allow": r.Allow, "deny": r.Deny, "ask": r.Ask} {
			found.At(at+": "+key, t.bounded(patterns))
		}
	}
	for i, v := range f.Views {
		at := ViewKey(i, v)
		found.When(!t.named(v.Name), "%s: name: want %s, or a name that begins with %s-", at, t.Name, t.Name)
		found.At(at+": show", t.bounded(v.Show))
		found.When(v.Path != "", "%s: path: only the main file gives paths: leave it out for the endpoint's and the name", at)
	}
	return found.Err()
}

// ofHost reports whether a URL is that of a service of this machine, or of the host's own ones.
func ofHost(to string) bool {
	u, err := url.Parse(to)
	if err != nil || u.Hostname() == "" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return loopback.Host(u.Hostname()) || err == nil && (safehttp.HostService(ip) || ip.IsUnspecified())
}

// bounded returns an error for a pattern of policy that is not about the team's upstreams alone.
func (t Team) bounded(patterns []string) error {
	for _, p := range patterns {
		if !policy.Within(p, t.upstreams()) {
			return fmt.Errorf("%q: the team %s may name %s alone", p, t.Name, strings.Join(t.upstreams(), ", "))
		}
	}
	return nil
}

// checkTeams returns the mistakes in the sections include and teams.
func checkTeams(c Config) error {
	var found problems.List
	for i, pattern := range c.Include {
		_, err := path.Match(pattern, "")
		found.When(err != nil || pattern == "", "include[%d]: %q is no pattern of files, such as conf.d/*.yaml", i, pattern)
		found.When(strings.ContainsAny(path.Dir(pattern), "*?["), "include[%d]: %q: only the name of a file may have a *",
			i, pattern)
	}
	found.When(len(c.Teams) > 0 && len(c.Include) == 0, "teams: they own files of include, which has none")
	names := map[string]bool{}
	for i, t := range c.Teams {
		at := fmt.Sprintf("teams[%d]", i)
		found.At(at, view.CheckName(t.Name))
		found.When(names[t.Name], "%s: name: another team is called %q already", at, t.Name)
		names[t.Name] = true
		for j, other := range c.Teams[:i] {
			found.When(t.named(other.Name) || other.named(t.Name) || t.meets(other),
				"%s: names that this team may give are those of teams[%d] (%s), too", at, j, other.Name)
		}
		found.When(len(t.Files) == 0, "%s: files: is needed, such as [%s.yaml]", at, t.Name)
		for key, patterns := range map[string][]string{"files": t.Files, "upstreams": t.Upstreams, "secrets": t.Secrets} {
			for j, p := range patterns {
				_, err := path.Match(p, "")
				found.When(err != nil || strings.ContainsAny(p, `?[]\`), "%s: %s[%d]: %q: only * is special", at, key, j, p)
			}
		}
		for j, s := range t.Secrets {
			found.When(!strings.HasPrefix(s, "env:") && !strings.HasPrefix(s, "file:/"),
				"%s: secrets[%d]: %q: want env:NAME or file:/path", at, j, s)
		}
	}
	return found.Err()
}

// include reads the files of the section include into the configuration. Their mistakes become problems of the
// document. Teams that are set aside have their former texts.
func include(c *Config, d *strictyaml.Document, src strictyaml.Source, aside *aside) error {
	switch {
	case len(c.Include) == 0 || checkTeams(*c) != nil:
		return nil
	case src.Dir == "":
		return errors.New("include: other files are not read here: gatehouse check reads them on their machine")
	}
	if aside != nil {
		aside.owner = func(file string) string {
			if owners := owners(c.Teams, file); len(owners) == 1 {
				return owners[0].Name
			}
			return ""
		}
	}
	var files []string
	for _, pattern := range c.Include {
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(src.Dir, pattern)
		}
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("include: %w", err)
		}
		files = append(files, found...)
		d.Note(strictyaml.SeeDirectory(filepath.Dir(pattern)))
	}
	if aside != nil {
		files = aside.without(files)
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) > maxIncluded {
		return fmt.Errorf("include: %d files are more than %d", len(files), maxIncluded)
	}
	own := c.Upstreams
	var found problems.List
	for _, file := range files {
		if err := adopt(c, d, src, file, aside); err != nil {
			found.Add("include: %s: %w", file, err)
		}
	}
	for i, t := range c.Teams {
		for _, u := range own {
			found.When(aside.has(t.Name) && t.gives(u.Name),
				"teams[%d]: cannot be set aside for its mistakes, as it may have rules about the upstream %s", i, u.Name)
		}
	}
	return found.Err()
}

// adopt reads one included file.
func adopt(c *Config, d *strictyaml.Document, src strictyaml.Source, file string, aside *aside) error {
	data, former := aside.text(file)
	if !former {
		var this strictyaml.Seen
		var err error
		data, _, this, err = strictyaml.SeeFile(file, MaxBytes)
		d.Note(this)
		if err != nil {
			part := strictyaml.Unread(file, err)
			aside.note(file, nil, part.Problems())
			d.Adopt(part, nil)
			return nil
		}
	}
	team := Team{Local: true}
	src.File, src.Data, src.Least, src.Example = file, data, "upstreams, policy or views", "upstreams: []"
	src.Inherit.Of = d
	if len(c.Teams) > 0 {
		owners := owners(c.Teams, file)
		switch len(owners) {
		case 0:
			d.Doubt(fmt.Errorf("include: %s is left out: no team has such a file", file))
			return nil
		case 1:
		default:
			return fmt.Errorf("is the file of %d teams: want one that names it in its files", len(owners))
		}
		team, src.Permit = owners[0], owners[0].permit
		src.Inherit.Suits = func(key string, element []string) bool { // no secret of the main file goes to a team's server
			return key != "headers" && key != "tls" && inherits(key, element)
		}
	}
	var f fragment
	part := strictyaml.Decode(src, &f)
	if len(c.Teams) > 0 {
		part.Check(team.check(f))
	}
	aside.note(file, data, part.Problems())
	d.Adopt(part, map[string]int{
		"upstreams":    len(c.Upstreams),
		"policy.rules": len(c.Policy.Rules),
		"views":        len(c.Views),
	})
	c.Upstreams = append(c.Upstreams, f.Upstreams...)
	c.Policy.Rules = append(c.Policy.Rules, f.Policy.Rules...)
	c.Views = append(c.Views, f.Views...)
	c.Included = append(c.Included, file)
	return nil
}

// inherits reports whether an upstream with these keys takes a key of the section defaults.
func inherits(key string, element []string) bool {
	defaults := reflect.TypeFor[upstream.Defaults]()
	index, known := strictyaml.Keys(defaults)[key]
	if !known || slices.Contains(element, "skills") {
		return false
	}
	kind := defaults.FieldByIndex(index).Tag.Get("for")
	return kind == "" || slices.Contains(element, kind)
}

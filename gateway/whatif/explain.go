package whatif

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/auth"
	"github.com/gatehouse-mcp/gatehouse/auth/apikey"
	"github.com/gatehouse-mcp/gatehouse/gateway/admin"
	"github.com/gatehouse-mcp/gatehouse/gateway/config"
	"github.com/gatehouse-mcp/gatehouse/internal/failure"
	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
	"github.com/gatehouse-mcp/gatehouse/policy"
	"github.com/gatehouse-mcp/gatehouse/upstream"
)

// Explain explains the decision of a configuration's policy. It uses only the configuration, and
// asks no upstream. It leaves the place of the rule to its caller.
func Explain(ctx context.Context, cfg config.Config, q admin.Question) (answer admin.Answer, err error) {
	caller, err := Caller(cfg, q)
	if err != nil {
		return answer, err
	}
	if q.Args != nil && !isObject(q.Args) {
		return answer, fmt.Errorf("the arguments are no JSON object")
	}
	if _, err := config.ViewNamed(cfg, q.View); err != nil {
		return answer, err
	}
	target, notes, err := targetOf(cfg, q)
	if err != nil {
		return answer, err
	}
	rules, err := policy.New(cfg.Rules(), config.ViewRules(cfg)...)
	if err != nil {
		return answer, err
	}
	e := rules.Explain(ctx, &caller, target, q.Args)
	for _, doubt := range cfg.PolicyDoubts() {
		notes = append(notes, doubt.Error())
	}
	answer = admin.Answer{Effect: e.Effect.String(), Rule: e.Rule, Text: e.String(), Notes: notes}
	if e.Effect != policy.Deny {
		answer.Hooks, err = cfg.Hooks.Explain(&caller, target)
	}
	return answer, err
}

// Examine tells why a token is or would be refused at the endpoint of a view, "" for the gateway's
// own. It asks the issuers for their keys.
func Examine(ctx context.Context, cfg config.Config, token, view string) (admin.Examined, error) {
	cfg = cfg.WithDefaults()
	a, err := auth.New(cfg.Auth, auth.Deps{PublicURL: cfg.PublicURL, Views: config.ViewURLs(cfg)})
	if err != nil {
		return admin.Examined{}, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- a.Run(running) }()
	e, err := examine(ctx, cfg, a, token, view)
	stop()
	if failed := <-ended; !errors.Is(failed, context.Canceled) {
		err = errors.Join(err, failed)
	}
	return e, err
}

// examine returns the judgement of a running Auth, and of the checks after it, on a token.
func examine(ctx context.Context, cfg config.Config, a *auth.Auth, token, view string) (admin.Examined, error) {
	v, err := config.ViewNamed(cfg, view)
	if err != nil {
		return admin.Examined{}, admin.BadRequest(err.Error() + ": leave it out for the gateway's own endpoint")
	}
	e, caller := auth.Examine(ctx, a, token, view)
	found := admin.Examined{Examination: e}
	if e.Good {
		found.Rules = rulesFor(cfg, caller)
		lookAt(&found, v.Who, caller)
	}
	return found, nil
}

// lookAt checks whether a caller may use a view, after the token.
func lookAt(e *admin.Examined, who policy.Who, caller mcp.Caller) {
	if users, err := policy.NewAudiences([]policy.Who{who}); err == nil && users.First(&caller) >= 0 {
		return
	}
	e.Good, e.Caller, e.Rules, e.Endings, e.Steps[len(e.Steps)-1].Result = false, nil, nil, "", auth.StepFailed
	e.Status, e.Code, e.Reason = http.StatusForbidden, failure.ViewRefused.String(), "this endpoint is for other users"
	e.Next = "Add the user, or one of their groups, to who of the view, or use another endpoint."
}

// KnownUser has what a configuration knows of a user.
type KnownUser struct {
	User string         `json:"user"`
	Keys []apikey.Entry `json:"keys"` // without hashes
	// Rules are those of policy that name the user, or apply to one of the keys.
	Rules []string `json:"rules"`
}

// Known returns what a configuration knows of a user.
func Known(cfg config.Config, user string) KnownUser {
	k := KnownUser{User: user, Keys: []apikey.Entry{}, Rules: []string{}}
	add := func(rules ...string) {
		for _, rule := range rules {
			if !slices.Contains(k.Rules, rule) {
				k.Rules = append(k.Rules, rule)
			}
		}
	}
	for _, r := range cfg.Policy.Rules {
		if slices.ContainsFunc(r.Who.Users,
			func(name string) bool { return name == user || strings.HasSuffix(name, " "+user) }) {
			add(r.Name)
		}
	}
	for _, e := range cfg.Auth.Keys.All() {
		if e.User == user {
			e.Hash = ""
			k.Keys = append(k.Keys, e)
			add(rulesFor(cfg, mcp.Caller{Issuer: mcp.KeyIssuer, Subject: e.User, ClientID: apikey.Prefix + e.ID,
				Groups: e.Groups, Scopes: e.Scopes})...)
		}
	}
	return k
}

// rulesFor returns the names of the rules that apply to a caller.
func rulesFor(cfg config.Config, caller mcp.Caller) (names []string) {
	for _, r := range cfg.Policy.Rules {
		if users, err := policy.NewAudiences([]policy.Who{r.Who}); err == nil && users.First(&caller) >= 0 {
			names = append(names, r.Name)
		}
	}
	return names
}

// Caller returns the caller of the question.
func Caller(c config.Config, q admin.Question) (mcp.Caller, error) {
	if q.Claims != nil && !isObject(q.Claims) {
		return mcp.Caller{}, fmt.Errorf("the claims are no JSON object")
	}
	if c.Auth.Identifies() {
		issuers := c.CallerIssuers()
		switch {
		case q.Issuer == "" && (len(issuers) == 1 || len(c.Issuers()) == 1): // without Issuer, keys are not meant
			q.Issuer = issuers[0]
		case !slices.Contains(issuers, q.Issuer):
			return mcp.Caller{}, fmt.Errorf("issuer %q: want one of %s", q.Issuer, strings.Join(issuers, ", "))
		}
	}
	return mcp.NewCaller(mcp.Caller{
		Issuer: q.Issuer, Subject: q.User, ClientID: q.Client, Groups: q.Groups, Scopes: q.Scopes,
		Claims: q.Claims, View: q.View,
	}), nil
}

// targetOf returns the target of a name, as far as the configuration tells.
func targetOf(c config.Config, q admin.Question) (t mcp.Target, notes []string, err error) {
	kinds := map[string]string{mcp.MethodToolsCall: mcp.KindTools, mcp.MethodPromptsGet: mcp.KindPrompts,
		mcp.MethodResourcesRead: mcp.KindResources, mcp.MethodSkillsGet: mcp.KindSkills}
	kind, known := kinds[q.Method]
	if !known {
		return t, nil, fmt.Errorf("method %q: want tools/call, prompts/get, resources/read or skills/get", q.Method)
	}
	name := q.Name
	for _, other := range kinds {
		rest, full := strings.CutPrefix(q.Name, other+":")
		if full && other != kind {
			return t, nil, fmt.Errorf("%q: %s is for %s", q.Name, q.Method, kind)
		}
		if full {
			name = rest
		}
	}
	if up, own, found := strings.Cut(name, "/"); found && own != "" && slices.Contains(c.UpstreamNames(), up) {
		return withSkillFile(c, mcp.Target{Kind: kind, Upstream: up, Name: own}), nil, nil
	}
	if name != q.Name {
		return t, nil, fmt.Errorf("%q: no upstream has this name: there are %s", q.Name,
			strings.Join(c.UpstreamNames(), ", "))
	}
	if kind == mcp.KindResources {
		t, notes, err = resourceTarget(c, name)
		if root, ok := mcp.SkillRoot(t.Name); ok && skillDir(c, t.Upstream) { // a skill, wherever it is
			return mcp.Target{Kind: mcp.KindSkills, Upstream: t.Upstream, Name: mcp.SkillPath(root), File: t.Name}, nil, err
		}
		return t, notes, err
	}
	if kind == mcp.KindSkills && strings.Contains(name, "://") {
		if t, _, err = resourceTarget(c, name); err != nil {
			return t, nil, err
		}
		root, ok := mcp.SkillRoot(t.Name)
		if !ok {
			return t, nil, fmt.Errorf("%q: the URI of a skill ends in /%s", name, mcp.SkillFile)
		}
		return mcp.Target{Kind: kind, Upstream: t.Upstream, Name: mcp.SkillPath(root), File: t.Name}, nil, nil
	}
	t, notes, err = namedTarget(c, kind, name)
	if err != nil {
		if short, ok := config.ShortTarget(c, q.View, kind, name); ok {
			return short, []string{fmt.Sprintf("%s is taken for %s, since the view drops prefixes; if another server that it shows has this name, it has to be called with its prefix.", name, short)}, nil
		}
	}
	return withSkillFile(c, t), notes, err
}

// withSkillFile adds the URI of its SKILL.md to a skill in a directory, since policy considers that
// URI, too. The URI of a server's skill is not known without asking the server.
func withSkillFile(c config.Config, t mcp.Target) mcp.Target {
	if t.Kind == mcp.KindSkills && skillDir(c, t.Upstream) {
		t.File = "skill://" + t.Name + "/" + mcp.SkillFile
	}
	return t
}

// skillDir reports whether an upstream is a directory of skills.
func skillDir(c config.Config, name string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u upstream.Config) bool { return u.Name == name && u.Skills != "" })
}

// closedName matches shortened names: those that were too long or had characters that models
// do not accept.
var closedName = regexp.MustCompile(`_[0-9a-f]{6}$`)

// namedTarget splits a public name of a tool or prompt. The longest prefix decides.
func namedTarget(c config.Config, kind, name string) (t mcp.Target, notes []string, err error) {
	longest := -1
	for _, u := range c.Upstreams {
		prefix, _ := c.Naming.Prefix(u.Name, u.Prefix)
		if own, fits := strings.CutPrefix(name, prefix); fits && own != "" && config.Enabled(u) && len(prefix) > longest {
			longest = len(prefix)
			t = mcp.Target{Kind: kind, Upstream: u.Name, Name: own}
		}
	}
	if longest < 0 {
		return t, nil, fmt.Errorf("%q has no upstream's prefix: whoever calls it is told that it does not exist", name)
	}
	if closedName.MatchString(name) {
		notes = append(notes,
			fmt.Sprintf("%s ends like a name that was shortened, or had characters replaced. If it was, its own name is not known without upstream %s: "+
				"give it as %s:%s/NAME, as the upstream has it.", name, t.Upstream, kind, t.Upstream))
	}
	return t, notes, nil
}

// resourceTarget splits a public URI.
func resourceTarget(c config.Config, uri string) (t mcp.Target, notes []string, err error) {
	tag, own, found := strings.Cut(uri, "+")
	for _, scheme := range []string{"ui://", "skill://"} {
		if rest, kept := strings.CutPrefix(uri, scheme); kept {
			var path string
			tag, path, found = strings.Cut(rest, "/")
			own = scheme + path
		}
	}
	var plain []string
	for _, u := range c.Upstreams {
		switch prefix, _ := c.Naming.Prefix(u.Name, u.Prefix); {
		case !config.Enabled(u):
		case prefix == "":
			plain = append(plain, u.Name)
		case found && strings.EqualFold(u.Name, tag):
			if strings.HasPrefix(uri, "skill://") {
				notes = append(notes,
					"A file of a skill is decided on as that skill, and by what is denied as a resource: ask for skills/get with the skill's name, too.")
			}
			return mcp.Target{Kind: mcp.KindResources, Upstream: u.Name, Name: own}, notes, nil
		}
	}
	if len(plain) == 1 {
		return mcp.Target{Kind: mcp.KindResources, Upstream: plain[0], Name: uri}, nil, nil
	}
	return t, nil, fmt.Errorf("%q has no upstream's name in it: which one lists it is not known without asking them; write resources:UPSTREAM/URI", uri)
}

func isObject(text []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(text, &object) == nil && object != nil
}

package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

const asksInVain = "ask grants nothing, it only tightens what a rule allows: allow it to those who are to have it"

// Doubts reports what is valid but probably a mistake: a pattern for an upstream that does
// not exist, a pattern that looks like another pattern language, and a pattern that asks
// about something that no rule allows. Each error has the path of its key in front.
func (c Config) Doubts(upstreams []string) []error {
	allowed := c.allowed()
	return c.eachPattern(func(r Rule, effect Effect, p pattern) error {
		if doubt := doubtOf(p, upstreams); doubt != nil {
			return doubt
		}
		if by := c.denies(r, p); effect == Allow && by != "" {
			return fmt.Errorf("%q allows nothing: the rule %s denies all of it, and deny beats allow", p.text, by)
		}
		if effect == Ask && c.Default != DefaultAllow && !slices.ContainsFunc(allowed, p.tightens) {
			return fmt.Errorf("%q fits nothing that a rule allows: %s", p.text, asksInVain)
		}
		return nil
	})
}

// Idle reports patterns that fit none of the known targets, or that ask about what no rule allows.
// Each has the path of its key in front. It skips patterns that may be about an upstream in
// unheard: its lists are not known.
func (c Config) Idle(known []mcp.Target, unheard []string) []error {
	allowed := c.allowed()
	all := make([]spelledTarget, len(known))
	var granted []spelledTarget
	for i, t := range known {
		all[i] = spellTarget(t)
		if c.Default == DefaultAllow || all[i].fits(allowed, Allow) {
			granted = append(granted, all[i])
		}
	}
	return c.eachPattern(func(_ Rule, effect Effect, p pattern) error {
		fits := func(r spelledTarget) bool { return r.fits([]pattern{p}, Ask) }
		switch {
		case slices.ContainsFunc(unheard, p.upstream.match):
			return nil
		case !slices.ContainsFunc(all, fits):
			return fmt.Errorf("%q fits nothing that upstreams list", p.text)
		case effect == Ask && !slices.ContainsFunc(granted, fits):
			return fmt.Errorf("%q fits nothing that a rule allows: %s", p.text, asksInVain)
		}
		return nil
	})
}

// denies returns a rule that denies all that a pattern of another rule fits, to all of that rule's
// callers; "" for none.
func (c Config) denies(r Rule, p pattern) string {
	for _, other := range c.Rules {
		if len(other.Deny) == 0 || other.When != "" || !other.Who.IsZero() && !reflect.DeepEqual(other.Who, r.Who) {
			continue
		}
		for _, text := range other.Deny {
			if d, err := parsePattern(text); err == nil && d.covers(p) {
				return other.Name
			}
		}
	}
	return ""
}

// covers reports whether this pattern fits all that another one does. That one's * is a character
// like others here, which only a * fits.
func (p *pattern) covers(other pattern) bool {
	_, rest, _ := strings.Cut(other.text, ":")
	upstream, name, _ := strings.Cut(rest, "/")
	return (p.kind == "*" || p.kind == other.kind) && p.upstream.match(upstream) && p.name.match(name)
}

// eachPattern collects the errors of say for all patterns of rules. It skips patterns that
// cannot be parsed: Validate reports those.
func (c Config) eachPattern(say func(Rule, Effect, pattern) error) (said []error) {
	for i, r := range c.Rules {
		for _, list := range []struct {
			effect Effect
			texts  []string
		}{{Allow, r.Allow}, {Deny, r.Deny}, {Ask, r.Ask}} {
			for j, text := range list.texts {
				p, err := parsePattern(text)
				if err != nil {
					continue
				}
				if err := say(r, list.effect, p); err != nil {
					said = append(said, fmt.Errorf("%s: %s[%d]: %w", elementPath("rules", i, r.Name), list.effect, j, err))
				}
			}
		}
	}
	return said
}

// allowed returns the patterns of everything that rules allow to any caller.
func (c Config) allowed() (patterns []pattern) {
	for _, r := range c.Rules {
		for _, text := range r.Allow {
			if p, err := parsePattern(text); err == nil {
				patterns = append(patterns, p)
			}
		}
	}
	return patterns
}

// tightens reports whether something could fit both this pattern, which asks, and one that
// allows. A pattern for resources also asks about the files of an allowed skill.
func (p *pattern) tightens(allowed pattern) bool {
	if !p.upstream.meets(&allowed.upstream) {
		return false
	}
	if p.kind == mcp.KindResources && allowed.kind == mcp.KindSkills {
		return true
	}
	return (p.kind == allowed.kind || p.kind == "*" || allowed.kind == "*") && p.name.meets(&allowed.name)
}

// Doubts reports patterns of limits that are probably a mistake, as Config.Doubts does.
func (all Limits) Doubts(upstreams []string) []error {
	var doubts []error
	for i, l := range all {
		for j, text := range l.What {
			p, err := parsePattern(text)
			if err != nil {
				continue // Validate says it
			}
			if doubt := doubtOf(p, upstreams); doubt != nil {
				doubts = append(doubts, fmt.Errorf("%s: what[%d]: %w", elementPath("", i, l.Name), j, doubt))
			}
		}
	}
	return doubts
}

// Doubts reports patterns of the view that are probably a mistake, as Config.Doubts does.
func (v View) Doubts(upstreams []string) (doubts []error) {
	for i, text := range v.Show {
		p, err := parsePattern(text)
		if err != nil {
			continue // Validate says it
		}
		if doubt := doubtOf(p, upstreams); doubt != nil {
			doubts = append(doubts, fmt.Errorf("show[%d]: %w", i, doubt))
		}
	}
	return doubts
}

// Idle reports patterns of the view that fit none of the known targets, or only such as no rule of
// the policy allows, as Config.Idle does.
func (v View) Idle(cfg Config, known []mcp.Target, unheard []string) (idle []error) {
	allowed := cfg.allowed()
	for i, text := range v.Show {
		p, err := parsePattern(text)
		if err != nil || slices.ContainsFunc(unheard, p.upstream.match) {
			continue
		}
		fits, granted := false, false
		for _, t := range known {
			spelled := spellTarget(t)
			if spelled.fits([]pattern{p}, Allow) {
				fits = true
				granted = granted || cfg.Default == DefaultAllow || spelled.fits(allowed, Allow)
			}
		}
		switch {
		case !fits:
			idle = append(idle, fmt.Errorf("show[%d]: %q fits nothing that upstreams list", i, text))
		case !granted:
			idle = append(idle, fmt.Errorf("show[%d]: %q fits nothing that a rule allows: a view grants nothing", i, text))
		}
	}
	if len(idle) > 0 && len(idle) == len(v.Show) {
		idle = append([]error{errors.New("show: the view shows nothing to anybody")}, idle...)
	}
	return idle
}

func doubtOf(p pattern, upstreams []string) error {
	switch {
	case !slices.ContainsFunc(upstreams, p.upstream.match):
		return fmt.Errorf("%q fits no upstream: there are %s", p.text, strings.Join(upstreams, ", "))
	case strings.Contains(p.text, ".*") || strings.ContainsAny(p.text, "^$|()"):
		return fmt.Errorf("%q: is a regular expression meant? Only * is special here, for any run of characters", p.text)
	}
	return nil
}

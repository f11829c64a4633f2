package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gatehouse-mcp/gatehouse/internal/mcp"
)

// Audiences sorts callers into sets, for configuration other than rules that depends on the
// caller. It decides nothing about permissions. Safe for concurrent use.
type Audiences struct {
	audiences []*audience
	hash      hasher
	known     *lru.Cache[uint64, *member]
}

// member is a caller with the index of the first audience that has the caller, -1 for none.
type member struct {
	*subject
	of int
}

// NewAudiences makes an Audiences of the sets. An error has the index of the bad set in
// front.
func NewAudiences(sets []Who) (*Audiences, error) {
	c := &Audiences{hash: newHasher()}
	for i, who := range sets {
		if err := who.validate(); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		c.audiences = append(c.audiences, newAudience(who))
	}
	var err error
	c.known, err = lru.New[uint64, *member](maxSubjects)
	return c, err
}

// First returns the index of the first set that has the caller, -1 for none. A caller with
// ambiguous claims belongs to no set.
func (c *Audiences) First(caller *mcp.Caller) int { return c.member(caller).of }

func (c *Audiences) member(caller *mcp.Caller) *member {
	key := c.hash.of(caller)
	if known, ok := c.known.Get(key); ok && known.is(caller) {
		return known
	}
	m := &member{newSubject(*caller), -1}
	for i, audience := range c.audiences {
		if m.unclear == nil && audience.has(m.subject) {
			m.of = i
			break
		}
	}
	c.known.Add(key, m)
	return m
}

// Selection is a list of patterns, for configuration other than rules that is about what
// upstreams offer. It decides nothing about permissions. Immutable.
type Selection struct{ patterns []pattern }

// NewSelection compiles patterns.
func NewSelection(patterns []string) (*Selection, error) {
	compiled, err := newPatterns(patterns)
	return &Selection{compiled}, err
}

// Has reports whether the patterns fit a target, as those of a rule that allows.
func (s *Selection) Has(t mcp.Target) bool {
	spelled := spellTarget(t)
	return spelled.fits(s.patterns, Allow)
}

// First returns the index of the first pattern that fits a target, -1 for none.
func (s *Selection) First(t mcp.Target) int {
	spelled := spellTarget(t)
	for i := range s.patterns {
		if spelled.fits(s.patterns[i:i+1], Allow) {
			return i
		}
	}
	return -1
}

// About reports whether some pattern is about a kind and upstream.
func (s *Selection) About(kind, upstream string) bool {
	of := mcp.Target{Kind: kind, Upstream: upstream}
	return slices.ContainsFunc(s.patterns, func(p pattern) bool { return p.of(of) })
}

// Reach is the set of calls to which a restriction applies that is no rule. In doubt it applies: to
// a caller with ambiguous claims, and to a URI that may be read in several ways if one of them
// fits. Safe for concurrent use.
type Reach struct {
	who  *Audiences // nil for every caller
	what []pattern
}

// NewReach makes a Reach of a set of callers and of patterns, nil for everything.
func NewReach(who Who, what []string) (r *Reach, err error) {
	if what == nil {
		what = []string{"*:*"}
	}
	r = &Reach{}
	if r.what, err = newPatterns(what); err != nil {
		return nil, err
	}
	if reflect.ValueOf(who).IsZero() {
		return r, nil
	}
	if r.who, err = NewAudiences([]Who{who}); err != nil {
		return nil, fmt.Errorf("who: %w", err)
	}
	return r, nil
}

// Has reports whether the restriction applies to a caller's use of a target.
func (r *Reach) Has(caller *mcp.Caller, t mcp.Target) bool {
	spelled := spellTarget(t)
	about := func(p pattern) bool { return p.of(t) }
	if !spelled.fits(r.what, Deny) && (!spelled.refused || !slices.ContainsFunc(r.what, about)) {
		return false
	}
	return r.hasCaller(caller)
}

// HasSome reports whether the restriction applies to anything of an upstream that a caller may use.
func (r *Reach) HasSome(caller *mcp.Caller, upstream string) bool {
	kinds := []string{mcp.KindTools, mcp.KindPrompts, mcp.KindResources, mcp.KindSkills}
	what := Selection{patterns: r.what}
	about := func(kind string) bool { return what.About(kind, upstream) }
	return slices.ContainsFunc(kinds, about) && r.hasCaller(caller)
}

func (r *Reach) hasCaller(caller *mcp.Caller) bool {
	if r.who == nil {
		return true
	}
	m := r.who.member(caller)
	return m.unclear != nil || m.of == 0
}

// CheckPatterns reports all mistakes in patterns, each with the path of its key in front.
func CheckPatterns(key string, patterns []string) error {
	return errors.Join(checkPatterns(key, patterns)...)
}

// CheckTarget reports what is wrong with the text of a target, kind:upstream/name.
func CheckTarget(text string) error {
	kind, rest, found := strings.Cut(text, ":")
	upstream, name, split := strings.Cut(rest, "/")
	switch {
	case !found || !split || upstream == "" || name == "" || !slices.Contains(kinds, kind):
		return fmt.Errorf("%q: want kind:upstream/name, such as tools:crm/export", text)
	case strings.Contains(upstream, "*") || kind != mcp.KindResources && strings.Contains(name, "*"):
		return fmt.Errorf("%q: there are no patterns here: name one thing", text)
	}
	return nil
}

// Validate reports all mistakes in the set.
func (w Who) Validate() error { return w.validate() }

// CheckIssuers reports issuers of the set that are not accepted.
func (w Who) CheckIssuers(accepted []string) error { return w.checkIssuers(accepted, false) }
